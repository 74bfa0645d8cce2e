import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collector = (options?: { readonly type: 'minor' }) => void;

let collector: Collector | null = null;

/** Frees what is garbage, at once: all of it, or of what is young. */
export function collectGarbage(which: 'all' | 'young'): void {
  if (collector === null) {
    setFlagsFromString('--expose-gc');
    collector = runInNewContext('gc') as Collector;
  }
  if (which === 'all') collector();
  else collector({ type: 'minor' });
}

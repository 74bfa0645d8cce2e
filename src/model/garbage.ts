import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collector = (options?: { readonly type: 'minor' }) => void;

let collector: Collector | null = null;

/**
 * Whether the heap, with what it holds outside of it, may grow to three times of what outlived a collection before the next
 * one, instead of what V8 thinks right: little more, where few objects are made. Large bodies are such growth and no garbage.
 */
export function letHeapGrow(grows: boolean): void {
  setFlagsFromString(`--heap-growing-percent=${grows ? 200 : 0}`);
}

/** Frees what is garbage, at once: all of it, or of what is young. */
export function collectGarbage(which: 'all' | 'young'): void {
  if (collector === null) {
    setFlagsFromString('--expose-gc');
    collector = runInNewContext('gc') as Collector;
  }
  if (which === 'all') collector();
  else collector({ type: 'minor' });
}

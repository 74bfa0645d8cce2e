import { readFileSync } from 'node:fs';
import { type Figure, figure } from './proof.ts';

/** Nanoseconds since the start of this process in which it ran, and in which it had work but waited for a processor. */
interface Scheduled {
  readonly ran: number;
  readonly waited: number;
}

/**
 * Measures how busy the machine was with other work: the share of the time with work in which this process waited for a
 * processor. Times that were measured on a busy machine depend on its load. The returned function reports the share since
 * the call of this one; nothing if the kernel does not report it.
 */
export function watchWaiting(read: () => Scheduled | null = scheduled): () => Figure[] {
  const from = read();
  return () => {
    const to = read();
    if (from === null || to === null) return [];
    const waited = to.waited - from.waited;
    const all = waited + to.ran - from.ran;
    return all === 0
      ? []
      : [figure('of the time it had something to do, it waited for a processor', (100 * waited) / all, '%')];
  };
}

function scheduled(): Scheduled | null {
  try {
    const [ran, waited] = readFileSync('/proc/self/schedstat', 'utf8').split(' ').map(Number) as [number, number];
    return { ran, waited };
  } catch {
    return null;
  }
}

import { readFileSync } from 'node:fs';
import { type Figure, figure } from './proof.ts';

/** In nanoseconds, since the start of this process: it ran, and it waited for a processor with something to do. */
interface Scheduled {
  readonly ran: number;
  readonly waited: number;
}

/**
 * How busy the machine was with other things: of the time in which this process had something to do it waited so much for
 * a processor. Times that were measured on a busy machine are those of the machine. The returned function says it of the
 * time since then; nothing where the kernel does not tell.
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

import type { Clock } from './clock.ts';

/**
 * What the work comes to, or what `late` makes of it where that takes longer than so many milliseconds. The work goes on
 * then, and what becomes of it is nobody's affair any more.
 */
export async function within<T, L>(clock: Clock, ms: number, work: Promise<T>, late: () => L): Promise<T | L> {
  let disarm = (): void => {};
  const expired = new Promise<L>((resolve, reject) => {
    disarm = clock.after(ms, () => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    });
  });
  try {
    return await Promise.race([work, expired]);
  } finally {
    disarm();
  }
}

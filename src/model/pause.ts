import type { Clock } from './clock.ts';

/** Resolves when so many milliseconds have passed. */
export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.after(ms, resolve));
}

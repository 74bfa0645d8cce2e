import { type Clock, pause } from '../../model/clock.ts';

/** Three seconds: the store may just be coming back. */
const LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400, 800, 1_500];

/** What is still to be written when this node ends has a moment to be. */
export async function lastMoment(clock: Clock, isDone: () => boolean): Promise<void> {
  for (const waitMs of LOOKS_MS) {
    if (isDone()) return;
    await pause(clock, waitMs);
  }
}

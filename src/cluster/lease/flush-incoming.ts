import type { Bus } from '../../bus/bus.ts';
import type { Clock } from '../../model/clock.ts';

/** What a node says to itself, to know what has come before it. */
const SUBJECT = 'trunkline.farewell';

/**
 * Resolves when everything has arrived that was on its way to this node when it was called: what it tells itself arrives
 * after that. At the latest after `withinMs`; at once where nothing can arrive.
 */
export function flushIncoming(bus: Bus, clock: Clock, withinMs: number): Promise<void> {
  if (bus.status.state !== 'connected') return Promise.resolve();
  const subject = `${SUBJECT}.${bus.peer}`;
  return new Promise((resolve) => {
    const done = (): void => {
      disarm();
      own.close();
      resolve();
    };
    const disarm = clock.after(withinMs, done);
    const own = bus.subscribe(subject, done);
    bus.publish(subject, Buffer.alloc(0));
  });
}

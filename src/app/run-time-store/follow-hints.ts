import type { Bus } from '../../bus/bus.ts';
import type { RunTimeStore } from '../../store/run-time-store/run-time-store.ts';
import { watchEvents } from '../public-subjects/watch-events.ts';
import type { Rooms } from '../rooms.ts';
import { writingBy } from './open-run-time-store.ts';

/** A node that has written to the store reports it here, with the revision. */
const STORE_WRITTEN = 'trunkline.truth';

/** The store that nodes share. It notifies the others of changes, so that they need not wait for their next poll. */
export function announcing(runTimeStore: RunTimeStore, bus: Bus): RunTimeStore {
  return writingBy(runTimeStore, async (writes) => {
    const applied = await runTimeStore.apply(writes);
    if (applied.ok) bus.publish(STORE_WRITTEN, Buffer.from(String(applied.revision)));
    return applied;
  });
}

/**
 * Calls `look` when another node reports that it has written, when such a report may have been missed, and, where the
 * public subjects are open, when a program reports that a server was added or removed.
 */
export function followHints({ connection, logger }: Rooms, look: () => void): void {
  if (connection === null) return;
  const { bus, wire, publicSubjects } = connection;
  bus.subscribe(STORE_WRITTEN, (_payload, from) => {
    if (from !== bus.peer) look();
  });
  bus.onEvent((event) => {
    if (event.type === 'connected') look();
  });
  if (wire !== undefined && publicSubjects !== undefined) watchEvents(wire, logger, look);
}

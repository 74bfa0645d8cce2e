import { watchEvents } from '../public-subjects/watch-events.ts';
import type { Rooms } from '../rooms.ts';
import { STORE_WRITTEN } from './open-run-time-store.ts';

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

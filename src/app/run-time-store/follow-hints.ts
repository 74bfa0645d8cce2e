import type { Wire } from '../../bus/wire.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Components } from '../components.ts';
import { SUBJECT_CREATED, SUBJECT_DELETED } from '../public-subjects/subjects.ts';
import { STORE_WRITTEN } from './open-run-time-store.ts';

const MAX_BYTES = 1024 * 1024;
/**
 * Calls `refresh` when another node reports a write to the store, when such a report may have been missed, and, with the public
 * subjects, when a program reports that a server was added or removed.
 */
export function followHints({ connection, logger }: Components, refresh: () => void): void {
  if (connection === null) return;
  const { bus, wire, publicSubjects } = connection;
  bus.subscribe(STORE_WRITTEN, (_payload, from) => {
    if (from !== bus.peer) refresh();
  });
  bus.onEvent((event) => {
    if (event.type === 'connected') refresh();
  });
  if (publicSubjects !== undefined) watchEvents(wire, logger, refresh);
}

/** Minimum interval between warnings about unreadable events. */
const WARN_EVERY_MS = 1_000;

/**
 * Follows events of servers that another node or a program added or removed (S0.17). Any client of NATS may send one, in any
 * order and more than once, so an event only makes this node look at the store. Logs and skips unreadable events.
 */
function watchEvents(wire: Wire, logger: Logger, refresh: () => void): void {
  let warnedAt = Number.NEGATIVE_INFINITY;
  const onServerEvent = (subject: string, payload: Buffer): void => {
    const reason = eventFault(payload);
    if (reason === null) refresh();
    else if (performance.now() - warnedAt >= WARN_EVERY_MS) {
      warnedAt = performance.now();
      logger.warn('server_event_unreadable', { subject, reason });
    }
  };
  for (const subject of [SUBJECT_CREATED, SUBJECT_DELETED]) {
    wire.subscribe(subject, ({ payload }) => onServerEvent(subject, payload));
  }
}

/** Returns why an event is invalid; null if it names a server. */
function eventFault(payload: Buffer): string | null {
  if (payload.length > MAX_BYTES) return `it has ${payload.length} bytes`;
  try {
    const event = JSON.parse(payload.toString()) as { readonly name?: unknown } | null;
    return typeof event?.name === 'string' && event.name !== '' ? null : 'it names no server';
  } catch {
    return 'it is no JSON';
  }
}

import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import type { Wanted } from '../connection/wanted.ts';

/** The place of such a connection in the pool, from when it begins to be opened. */
export interface Slot extends Wanted {
  connection: Connection | null;
  opening: Promise<Connection> | null;
  readonly attempt: Attempt;
}

/** Whether the slot has, or may turn out to have, what a client of these capabilities needs in this era. */
export function mayFit(slot: Slot, profile: ClientProfile, era: Era | null): boolean {
  if (slot.profile.fingerprint !== profile.fingerprint) return false;
  const has = slot.connection?.era ?? slot.era;
  return has === null || era === null || has === era;
}

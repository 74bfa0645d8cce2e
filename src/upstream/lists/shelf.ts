import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { Connection } from '../connection/connection.ts';

/** What is known of a server's lists: of those for one kind of client, or of those that the process of one client has. */
export interface Shelf {
  readonly era: Era;
  readonly profile: ClientProfile;
  /** The process whose lists these are; null where they are those of a fresh process, or of a server that all share. */
  readonly own: Connection | null;
  /** Of a process that lists what a fresh one does: null. */
  catalog: ServerCatalog | null;
  /** The connection that the last listing was made over, or is being made. */
  over: Connection | null;
  /** The run of the server in which it was last listed; 0 for a remembered catalogue. */
  listedIn: number;
  listing: Promise<void> | null;
  /** The server changed while it was being listed. */
  again: boolean;
  /** Monotonic; the list is not asked for before this. */
  pausedUntil: number;
  /** In a row. */
  failures: number;
  /** Calls off the next attempt. */
  disarm: () => void;
}

export function newShelf(profile: ClientProfile, era: Era, own: Connection | null): Shelf {
  const state = { listedIn: 0, listing: null, again: false, pausedUntil: 0, failures: 0, disarm: () => {} };
  return { era, profile, own, catalog: null, over: null, ...state };
}

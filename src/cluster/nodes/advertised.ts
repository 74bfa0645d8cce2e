import { isDeepStrictEqual } from 'node:util';
import type { ServerStatus } from '../../model/server-state.ts';
import type { ServerText } from './foreign-server.ts';

export interface AdvertisedServer {
  readonly definition: ServerText;
  /** With the key in force. */
  readonly digest: string;
  /** With all accepted keys. */
  readonly digests: readonly string[];
  readonly status: ServerStatus | null;
  /** Counts changes of its lists. */
  readonly catalogs: number;
  /** Counts changes that the server announced; absent for none. */
  readonly changes?: number;
  /** Digest of what the process of a shared server lists; absent for others, before its first lists, and from earlier versions. */
  readonly lists?: string;
  /** Digests by session key: lists of single clients' processes that differ from a fresh process's. */
  readonly own?: Readonly<Record<string, string>>;
}

/** What a node advertises: everything, or with `since` what changed after that version. */
export interface Advertisement {
  readonly version: number;
  readonly since?: number;
  readonly servers: readonly AdvertisedServer[];
  readonly removed?: readonly string[];
}

/** What each node publishes: how the version before becomes this one. */
export interface OfferChange {
  readonly version: number;
  readonly changed: readonly ServerChange[];
  readonly removed: readonly string[];
}

/** A server that is new or has another definition, or the members that changed; of a status likewise. */
export type ServerChange =
  | { readonly server: AdvertisedServer }
  | { readonly name: string; readonly members: ChangedMembers };

type ChangedMembers = Partial<Omit<AdvertisedServer, 'definition' | 'digest' | 'digests' | 'status'>> & {
  readonly status?: Partial<ServerStatus>;
};

/** Null if nothing changed. */
export function changeOf(before: AdvertisedServer, now: AdvertisedServer): ServerChange | null {
  const { status, definition, digest: _, digests, ...members } = now;
  const whole = (): ServerChange => ({ server: now });
  if (!isDeepStrictEqual([before.definition, before.digests], [definition, digests])) return whole();
  const changed = changedMembers(before, members);
  if (status === null) return before.status === null && isEmpty(changed) ? null : whole();
  const statusChanged = changedMembers(before.status ?? {}, status);
  const lost = Object.keys({ ...before, ...before.status }).some((key) => !(key in now) && !(key in status));
  if (lost) return whole();
  if (isEmpty(changed) && isEmpty(statusChanged)) return null;
  const more = isEmpty(statusChanged) ? {} : { status: statusChanged };
  return { name: definition.name, members: { ...changed, ...more } };
}

/** In place: the routing table has the same object. */
export function applyMembers(server: AdvertisedServer, { status, ...members }: ChangedMembers): void {
  const merged = status === undefined ? {} : { status: { ...server.status, ...status } };
  Object.assign(server, members, merged);
}

function changedMembers<T extends object>(before: Partial<T>, now: T): Partial<T> {
  const changed = Object.entries(now).filter(([key, value]) => !isDeepStrictEqual(before[key as keyof T], value));
  return Object.fromEntries(changed) as Partial<T>;
}

function isEmpty(members: object): boolean {
  return Object.keys(members).length === 0;
}

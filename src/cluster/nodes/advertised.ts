import { isDeepStrictEqual } from 'node:util';
import type { ServerStatus } from '../../model/server-state.ts';
import type { ServerText } from './foreign-server.ts';

export interface AdvertisedServer {
  readonly definition: ServerText;
  /** Digests of the definition with all accepted keys. */
  readonly digests: readonly string[];
  readonly status: ServerStatus | null;
  /** Number of changes of its lists. */
  readonly catalogs: number;
  /** Number of changes that the server announced; absent for none. */
  readonly changes?: number | undefined;
  /** Digest of the lists of a shared server's process; absent for others, before its first lists, and from earlier versions. */
  readonly lists?: string | undefined;
  /** Digests of lists of single clients' processes that differ from a fresh process's, by session key. */
  readonly own?: Readonly<Record<string, string>> | undefined;
}

/** Definition and status as JSON text: a node parses only definitions that it does not know, and a status when it is used. */
export interface AdvertisedText extends Omit<AdvertisedServer, 'definition' | 'status'> {
  readonly definition: string;
  readonly status: string | null;
}

export function advertisedText({ definition, status, ...members }: AdvertisedServer): AdvertisedText {
  return { ...members, definition: JSON.stringify(definition), status: status && JSON.stringify(status) };
}

/** What a node advertises: all servers, or with `since` those that changed after that version. */
export interface Advertisement {
  readonly version: number;
  readonly since?: number;
  readonly servers: readonly (AdvertisedServer | AdvertisedText)[];
  readonly removed?: readonly string[];
}

/** The change that a node publishes, from the previous version to this one. */
export interface OfferChange {
  readonly version: number;
  readonly changed: readonly ServerChange[];
  readonly removed: readonly string[];
}

/** The whole server if it is new, has another definition or lost members; otherwise the members that changed. */
export type ServerChange =
  | { readonly server: AdvertisedServer | AdvertisedText }
  | { readonly name: string; readonly members: ChangedMembers };

type ChangedMembers = Partial<Omit<AdvertisedServer, 'definition' | 'digests' | 'status'>> & {
  readonly status?: Partial<ServerStatus>;
};

/** Null if nothing changed. */
export function changeOf(before: AdvertisedServer, now: AdvertisedServer): ServerChange | null {
  const { status, definition, digests, ...members } = now;
  const complete = (): ServerChange => ({ server: now });
  if (!isDeepStrictEqual([before.definition, before.digests], [definition, digests])) return complete();
  const changed = changedMembers(before, members);
  if (status === null) return before.status === null && isEmpty(changed) ? null : complete();
  const statusChanged = changedMembers(before.status ?? {}, status);
  const lost = Object.keys({ ...before, ...before.status }).some((key) => !(key in now) && !(key in status));
  if (lost) return complete();
  if (isEmpty(changed) && isEmpty(statusChanged)) return null;
  const more = isEmpty(statusChanged) ? {} : { status: statusChanged };
  return { name: definition.name, members: { ...changed, ...more } };
}

export type Definition = Pick<AdvertisedServer, 'definition' | 'digests'>;

/** A server that another node advertises. Changes are applied in place. */
export class ReceivedServer implements AdvertisedServer {
  readonly definition: ServerText;
  readonly digests: readonly string[];
  catalogs: number;
  changes: number | undefined;
  lists: string | undefined;
  own: Readonly<Record<string, string>> | undefined;
  #status: ServerStatus | string | null;

  constructor({ definition, digests }: Definition, advertised: AdvertisedServer | AdvertisedText) {
    const { status, catalogs, changes, lists, own } = advertised;
    this.definition = definition;
    this.digests = digests;
    this.catalogs = catalogs;
    this.changes = changes;
    this.lists = lists;
    this.own = own;
    this.#status = status;
  }

  get status(): ServerStatus | null {
    if (typeof this.#status === 'string') this.#status = JSON.parse(this.#status) as ServerStatus;
    return this.#status;
  }

  apply({ status, ...members }: ChangedMembers): void {
    if (status !== undefined) this.#status = { ...this.status, ...status } as ServerStatus;
    Object.assign(this, members);
  }
}

function changedMembers<T extends object>(before: Partial<T>, now: T): Partial<T> {
  const changed = Object.entries(now).filter(([key, value]) => !isDeepStrictEqual(before[key as keyof T], value));
  return Object.fromEntries(changed) as Partial<T>;
}

function isEmpty(members: object): boolean {
  return Object.keys(members).length === 0;
}

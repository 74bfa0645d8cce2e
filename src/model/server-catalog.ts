import type { PinnedKind } from './drift.ts';
import type { Era } from './message.ts';
import { count, described, type Infer, nullable, object, text } from './schema.ts';

export type ListKind = 'tools' | 'prompts' | 'resources' | 'resourceTemplates';
export const LIST_KINDS: readonly ListKind[] = ['tools', 'prompts', 'resources', 'resourceTemplates'];

/** One tool, prompt, resource or template as its server wrote it. */
export interface Capability {
  /** Tool or prompt name, resource `uri`, template `uriTemplate`. */
  readonly key: string;
  /** The item's JSON object, byte for byte. */
  readonly bytes: Buffer;
}

export const INVALID_ITEM = {
  list: described(text, 'The method that lists it.'),
  page: described(count, 'From 0, as `index`.'),
  index: count,
  item: described(nullable(text), 'Its own name, where it has one.'),
  reason: text,
};
const INVALID = object(INVALID_ITEM);
export type InvalidItem = Infer<typeof INVALID>;

/** What the server said of itself at the handshake (`initialize` result or `server/discover` result), byte for byte. */
export interface HandshakeResult {
  readonly era: Era;
  /** The revision agreed with this server. */
  readonly revision: string;
  readonly result: Buffer;
  /** Ranges of it, as JSON text; null where absent. */
  readonly serverInfo: string | null;
  readonly capabilities: string;
  /** Decoded text; null where absent. */
  readonly instructions: string | null;
}

export interface CachedList {
  readonly items: readonly Capability[];
  /** The `result` values of the pages, byte for byte, in order: for pass-through endpoints. */
  readonly pages: readonly Buffer[];
  /** Cache hints of the server; 0 and private where it gave none (proto:C3). The minimum over the pages. */
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

/** Immutable snapshot of a server's lists per upstream identity and fingerprint. Lists that it lacks are empty. */
export interface ServerCatalog {
  readonly server: string;
  readonly fingerprint: string;
  /** Digest over all items and the hello: equal digests are equal catalogues. */
  readonly digest: string;
  readonly handshake: HandshakeResult;
  readonly lists: Readonly<Record<ListKind, CachedList>>;
  /** Wall clock of the listing. */
  readonly listedAt: number;
  /** It is what the process of one client lists, and not what a fresh process does; absent elsewhere. */
  readonly own?: true;
  /** The names in the server's lists that no client is offered; absent where nothing is withheld. */
  readonly withheld?: Withheld;
}

/** Names that are not offered, with why in words for the caller (docs/drift.md). */
interface Withheld extends Readonly<Record<PinnedKind, ReadonlyMap<string, string>>> {
  /** All that may be used, where nothing else may be; null where names that the server does not list go to it as well. */
  readonly only: Readonly<Record<PinnedKind, ReadonlySet<string>>> | null;
}

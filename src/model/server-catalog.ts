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

/** The server's handshake (`initialize` result or `server/discover` result), byte for byte. */
export interface HandshakeResult {
  readonly era: Era;
  /** The revision agreed with this server. */
  readonly revision: string;
  readonly result: Buffer;
  /** Parts of `result`, as JSON text; null if absent. */
  readonly serverInfo: string | null;
  readonly capabilities: string;
  /** Decoded text; null if absent. */
  readonly instructions: string | null;
}

export interface CachedList {
  readonly items: readonly Capability[];
  /** The `result` values of the pages, byte for byte, in order: for pass-through endpoints. */
  readonly pages: readonly Buffer[];
  /** Cache hints of the server, the minimum over the pages; 0 and private if it gave none (proto:C3). */
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

/** A list that the server lacks. */
export const NO_LIST: CachedList = { items: [], pages: [], ttlMs: 0, cacheScope: 'private' };

/** Immutable snapshot of a server's lists per upstream identity and fingerprint. Lists that the server lacks are empty. */
export interface ServerCatalog {
  readonly server: string;
  readonly fingerprint: string;
  /** Digest over all items and the handshake; equal catalogues have equal digests. */
  readonly digest: string;
  readonly handshake: HandshakeResult;
  readonly lists: Readonly<Record<ListKind, CachedList>>;
  /** Wall clock of the listing. */
  readonly listedAt: number;
  /** Set if the catalogue comes from the process of one client and may differ from that of a fresh process. */
  readonly own?: true;
  /** Names in the server's lists that no client is offered; absent if there are none. */
  readonly withheld?: Withheld;
}

/** Names that are not offered, with the reason for the caller (docs/drift.md). */
interface Withheld extends Readonly<Record<PinnedKind, ReadonlyMap<string, string>>> {
  /** The only names that may be used; null if names that the server does not list may be used too. */
  readonly only: Readonly<Record<PinnedKind, ReadonlySet<string>>> | null;
}

const TOOLS = new WeakMap<ServerCatalog, ReadonlyMap<string, Capability>>();

/** The listed tools by name. Made once per catalog. */
export function toolsByName(catalog: ServerCatalog): ReadonlyMap<string, Capability> {
  let tools = TOOLS.get(catalog);
  if (tools === undefined)
    TOOLS.set(catalog, (tools = new Map(catalog.lists.tools.items.map((tool) => [tool.key, tool]))));
  return tools;
}

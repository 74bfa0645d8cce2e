import { kindAt } from '../../model/caller-partition.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { Server } from '../../model/server.ts';
import { LIST_KINDS, type ListKind, type ServerCatalog } from '../../model/server-catalog.ts';
import { faultOfItem, sanitizePage } from '../../protocol/list-page.ts';
import { listOf } from '../../protocol/methods.ts';
import { type ClientText, clientOf } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';

interface ListText {
  readonly keys: readonly string[];
  readonly pages: number;
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

/**
 * A catalog without its bytes, which follow as pieces: the handshake result, then pages and items of each list. `hello` is the
 * name of the handshake on the wire.
 */
export interface CatalogText extends Omit<ServerCatalog, 'lists' | 'handshake'> {
  readonly hello: Omit<ServerCatalog['handshake'], 'result'>;
  readonly lists: Readonly<Record<ListKind, ListText>>;
}

export function catalogText(catalog: ServerCatalog): {
  readonly text: CatalogText;
  readonly pieces: readonly Buffer[];
} {
  const { result, ...hello } = catalog.handshake;
  const pieces: Buffer[] = [result];
  const lists = {} as Record<ListKind, ListText>;
  for (const kind of LIST_KINDS) {
    const { items, pages, ttlMs, cacheScope } = catalog.lists[kind];
    lists[kind] = { keys: items.map(({ key }) => key), pages: pages.length, ttlMs, cacheScope };
    pieces.push(...pages, ...items.map(({ bytes }) => bytes));
  }
  const { server, fingerprint, digest, listedAt, own } = catalog;
  const text = { server, fingerprint, digest, listedAt, hello, lists };
  return { text: own === undefined ? text : { ...text, own }, pieces };
}

/** The client of requests whose lists do not depend on the client. */
export const NO_CLIENT: ClientText = {
  principal: { id: '', name: '', servers: null },
  sessionId: null,
  revision: '2026-07-28',
  capabilities: '{}',
  fingerprint: '',
  info: null,
  logLevel: null,
  handle: null,
};

/** A placeholder for the clients of all sessions; no client has its session id. */
export const ANY_SESSION: ClientProfile = clientOf({ ...NO_CLIENT, sessionId: '', revision: '2025-11-25' });

const NOTHING = Buffer.alloc(0);

export function catalogOf(text: CatalogText, pieces: readonly Buffer[]): ServerCatalog {
  let at = 1;
  const lists = {} as Record<ListKind, ServerCatalog['lists'][ListKind]>;
  for (const kind of LIST_KINDS) {
    const { keys, pages: count, ttlMs, cacheScope } = text.lists[kind];
    const list = listOf(kind);
    const pages = pieces.slice(at, at + count).map((page) => sanitizePage(list, page, text.hello.era).page);
    at += count;
    // A node of an earlier version may have accepted invalid items.
    const items = keys.map((key, i) => ({ key, bytes: pieces[at + i] ?? NOTHING }));
    lists[kind] = {
      items: items.filter(({ bytes }) => faultOfItem(list, bytes, text.hello.era) === ''),
      pages,
      ttlMs,
      cacheScope,
    };
    at += keys.length;
  }
  if (pieces.length !== at)
    throw new RangeError('a catalogue of another node has another number of pieces than it says');
  const { hello, ...rest } = text;
  return { ...rest, handshake: { ...hello, result: pieces[0]! }, lists };
}

/** The kinds of lists whose items differ; all that are not empty if `before` is null. */
export function differing(before: ServerCatalog | null, { lists }: ServerCatalog): readonly ListKind[] {
  return LIST_KINDS.filter((kind) => {
    const [were, are] = [before?.lists[kind].items ?? [], lists[kind].items];
    return were.length !== are.length || are.some(({ bytes }, i) => !bytes.equals(were[i]!.bytes));
  });
}

const MAX_KINDS = 256;
const MAX_SERVERS = 4_096;

/** Caches catalog keys, because every call needs one and each map hashes a new string again. */
export class CatalogKeys {
  readonly #shown: { definition(server: string): Server | undefined };
  readonly #keys = { stateful: kinds(), stateless: kinds() };

  constructor(shown: { definition(server: string): Server | undefined }) {
    this.#shown = shown;
  }

  of(server: string, client: ClientProfile): string {
    const era = clientEra(client);
    const kind = kindAt(this.#shown.definition(server), client);
    let ofKind = this.#keys[era].get(kind);
    if (ofKind === undefined) this.#keys[era].set(kind, (ofKind = new LruMap(MAX_SERVERS)));
    let key = ofKind.get(server);
    if (key === undefined) ofKind.set(server, (key = `${server}\n${era}\n${kind}`));
    return key;
  }
}

export function catalogKey(server: Pick<Server, 'name' | 'callerSeparation'>, client: ClientProfile): string {
  return `${server.name}\n${clientEra(client)}\n${kindAt(server, client)}`;
}

export function clientEra({ sessionId }: ClientProfile): Era {
  return sessionId === null ? 'stateless' : 'stateful';
}

function kinds(): LruMap<LruMap<string>> {
  return new LruMap(MAX_KINDS);
}

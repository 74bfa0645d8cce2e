import { LIST_KINDS, type ListKind, type ServerCatalog } from '../model/server-catalog.ts';
import { cacheHints } from './cache-hints.ts';
import { fieldAt } from './fields.ts';
import { listOf } from './methods.ts';

/** A list is fetched at most once in so long for want of freshness, whatever its server says. */
const MIN_AGE_MS = 1_000;

/** What is left of the time that the server gave its hello, in whole milliseconds; 0 where it gave none. */
export function handshakeTtlMs({ handshake, listedAt }: ServerCatalog, wall: number): number {
  if (handshake.era === 'stateful') return 0;
  const { ttlMs } = cacheHints(handshake.result, 0, handshake.result.length);
  return Math.max(0, Math.floor(Math.min(ttlMs, listedAt + ttlMs - wall)));
}

/** Whether the hello's time has run out; not where the server gave it none. */
export function handshakeIsStale(catalog: ServerCatalog, wall: number): boolean {
  const { handshake, listedAt } = catalog;
  if (handshake.era === 'stateful' || wall - listedAt < MIN_AGE_MS) return false;
  return cacheHints(handshake.result, 0, handshake.result.length).ttlMs > 0 && handshakeTtlMs(catalog, wall) === 0;
}

/**
 * Whether a list is to be fetched again before it is relied on: its time has run out, or it never had any and its
 * server does not tell of changes. Stateful servers give no times; their word is `list_changed`.
 */
export function listIsStale({ handshake, lists, listedAt }: ServerCatalog, kind: ListKind, wall: number): boolean {
  const age = wall - listedAt;
  if (handshake.era === 'stateful' || age < MIN_AGE_MS) return false;
  const { ttlMs } = lists[kind];
  if (ttlMs > 0) return age >= ttlMs;
  const bytes = Buffer.from(handshake.capabilities);
  const { capability } = listOf(kind);
  if (fieldAt(bytes, 0, bytes.length, [capability]) === null) return false;
  const declared = fieldAt(bytes, 0, bytes.length, [capability, 'listChanged']);
  return declared === null || bytes[declared.start] !== 0x74;
}

/** Whether anything of the catalogue is to be fetched again. */
export function isStale(catalog: ServerCatalog, wall: number): boolean {
  return handshakeIsStale(catalog, wall) || LIST_KINDS.some((kind) => listIsStale(catalog, kind, wall));
}

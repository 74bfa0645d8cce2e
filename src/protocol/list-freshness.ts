import { LIST_KINDS, type ListKind, type ServerCatalog } from '../model/server-catalog.ts';
import { fieldAt, fields, type Range, stringValue } from './fields.ts';
import { listOf } from './methods.ts';

/** A stale list is fetched at most once in this time, whatever its server says. */
const MIN_AGE_MS = 1_000;

/** The rest of the handshake's `ttlMs`, in whole milliseconds; 0 without one. */
export function handshakeTtlMs({ handshake, listedAt }: ServerCatalog, wall: number): number {
  if (handshake.era === 'stateful') return 0;
  const { ttlMs } = cacheHints(handshake.result, 0, handshake.result.length);
  return Math.max(0, Math.floor(Math.min(ttlMs, listedAt + ttlMs - wall)));
}

/** Whether the handshake's `ttlMs` has passed; false without one. */
export function handshakeIsStale(catalog: ServerCatalog, wall: number): boolean {
  const { handshake, listedAt } = catalog;
  if (handshake.era === 'stateful' || wall - listedAt < MIN_AGE_MS) return false;
  return cacheHints(handshake.result, 0, handshake.result.length).ttlMs > 0 && handshakeTtlMs(catalog, wall) === 0;
}

/** Whether to fetch a list again: its `ttlMs` has passed, or it has none and the server does not announce changes. */
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

export function isStale(catalog: ServerCatalog, wall: number): boolean {
  return handshakeIsStale(catalog, wall) || LIST_KINDS.some((kind) => listIsStale(catalog, kind, wall));
}

/** A server's hints of how long, and by whom, a result may be cached (2026-07-28, server/utilities/caching). */
export interface CacheHints {
  /** 0 if the server gave no valid hint (proto:C3). */
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
  readonly ttl: Range | null;
  readonly scope: Range | null;
}

/** The longest accepted `ttlMs`; a longer one may be a mistake of the server. */
export const MAX_TTL_MS = 24 * 60 * 60 * 1000;

const KEYS = ['ttlMs', 'cacheScope'];

export function cacheHints(bytes: Buffer, start: number, end: number): CacheHints {
  const [ttl = null, scope = null] = fields(bytes, start, end, KEYS);
  return {
    ttlMs: ttl === null ? 0 : milliseconds(bytes.toString('latin1', ttl.start, ttl.end)),
    cacheScope: stringValue(bytes, scope) === 'public' ? 'public' : 'private',
    ttl,
    scope,
  };
}

/** Fractions, negative numbers and values that are not numbers are no hint. */
function milliseconds(lexeme: string): number {
  const value = Number(lexeme);
  return Number.isInteger(value) && value > 0 ? Math.min(value, MAX_TTL_MS) : 0;
}

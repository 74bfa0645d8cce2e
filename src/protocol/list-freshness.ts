import { LIST_KINDS, type ListKind, type ServerCatalog } from '../model/server-catalog.ts';
import { fieldAt, fields, type Range, stringValue } from './fields.ts';
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

/** Whether to fetch a list again: its time is over, or it had none and the server does not announce changes. */
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

/** What a server says of how long, and by whom, one of its results may be kept (2026-07-28, server/utilities/caching). */
export interface CacheHints {
  /** 0 where the server gave no hint, or none that means anything (proto:C3). */
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
  readonly ttl: Range | null;
  readonly scope: Range | null;
}

/** The longest accepted time; a server that says more may not mean it. */
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

/** Fractions, negative numbers and what is no number at all are no hint. */
function milliseconds(lexeme: string): number {
  const value = Number(lexeme);
  return Number.isInteger(value) && value > 0 ? Math.min(value, MAX_TTL_MS) : 0;
}

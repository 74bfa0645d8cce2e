import { fields, type Range, stringValue } from './fields.ts';

/** What a server says of how long, and by whom, one of its results may be kept (2026-07-28, server/utilities/caching). */
export interface CacheHints {
  /** 0 where the server gave no hint, or none that means anything (proto:C3). */
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
  /** Where `ttlMs` is; null without it. */
  readonly ttl: Range | null;
  /** Where `cacheScope` is; null without it. */
  readonly scope: Range | null;
}

/** The longest accepted time; a server that says more may not mean it. */
export const MAX_TTL_MS = 24 * 60 * 60 * 1000;

const KEYS = ['ttlMs', 'cacheScope'];

/** The hints of the result in this range. */
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

import type { GuardedFetch } from '../http/client/guarded-fetch.ts';

/** The server's `WWW-Authenticate` challenge (RFC 6750 §3, RFC 9728 §5.1). */
export interface BearerChallenge {
  readonly resourceMetadata: string | null;
  readonly scope: string | null;
  readonly error: string | null;
}

const NOTHING: BearerChallenge = { resourceMetadata: null, scope: null, error: null };
const MAX_LENGTH = 8_192;
/** A parameter, or the scheme of the next challenge. */
const PART = /([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*)))?/g;

/** The first `Bearer` or `DPoP` challenge of the header; empty if there is none. */
export function bearerChallenge(header: string | null): BearerChallenge {
  if (header === null || header.length > MAX_LENGTH) return NOTHING;
  let scheme = '';
  const found = new Map<string, string>();
  for (const [whole, name = '', quoted, bare] of header.matchAll(PART)) {
    if (!whole.includes('=')) {
      if (found.size > 0) break;
      scheme = name.toLowerCase();
    } else if (scheme === 'bearer' || scheme === 'dpop') {
      found.set(name.toLowerCase(), quoted?.replaceAll(/\\(.)/g, '$1') ?? bare ?? '');
    }
  }
  return {
    resourceMetadata: found.get('resource_metadata') ?? null,
    scope: found.get('scope') || null,
    error: found.get('error') ?? null,
  };
}

/** Sends a request without a token, to get the server's challenge. */
export function requestWithoutToken(fetch: GuardedFetch, url: string): Promise<Response> {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  return fetch(url, { method: 'POST', headers, body: '{"jsonrpc":"2.0","id":1,"method":"ping"}' });
}

/** Scopes as a list without duplicates. */
export function scopesOf(text: string | null | undefined): string[] {
  return [...new Set((text ?? '').split(' ').filter((scope) => scope !== ''))];
}

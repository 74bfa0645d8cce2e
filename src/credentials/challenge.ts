import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import { bearerParameters } from '../model/bearer-parameters.ts';

/** The server's `WWW-Authenticate` challenge (RFC 6750 §3, RFC 9728 §5.1). */
export interface BearerChallenge {
  readonly resourceMetadata: string | null;
  readonly scope: string | null;
  readonly error: string | null;
}

/** The first `Bearer` or `DPoP` challenge of the header; empty if there is none. */
export function bearerChallenge(header: string | null): BearerChallenge {
  const found = bearerParameters(header);
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

import { isIP } from 'node:net';
import { bareHost, isLoopbackHost, isPublicAddress } from '../../model/host-address.ts';
import type { Resolver } from './resolver.ts';

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 256 * 1024;
const DOWNLOAD_MS = 600_000;
const SILENCE_MS = 30_000;
const MAX_REDIRECTS = 5;

/** `fetch` for URLs that are not from the operator's file. Rejects with EgressRefused or FetchFailed. */
export type GuardedFetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** The gateway does not connect to this URL. The message contains the host, no other part of the URL. */
export class EgressRefused extends Error {}

/** No answer arrived, or not in time. The message contains the host, no other part of the URL. */
export class FetchFailed extends Error {}

/**
 * Makes a guarded fetch: https to public addresses only, connecting to the addresses that were checked; no proxy, no
 * redirects, 5 s, 256 KiB. `inside`: the source of the URL is on this machine or its network, so such addresses are
 * allowed, and http on loopback (RFC 8252 §8.3). `hosts`: host and port of URLs that the operator named, which may be
 * inside.
 */
export function guardedFetch(resolver: Resolver, inside: boolean, hosts: readonly string[] = []): GuardedFetch {
  return async (target, init = {}) => {
    const url = new URL(target);
    const trusted = inside || hosts.includes(url.host);
    refuse(url, trusted, ISSUER);
    const { Agent, fetch } = await import('undici');
    const lookup = trusted ? resolver.lookup : resolver.publicLookup;
    const dispatcher = new Agent({ connect: { lookup, timeout: TIMEOUT_MS }, pipelining: 0 });
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const options = { ...init, redirect: 'manual', signal, dispatcher };
      const response = await fetch(url, options as Parameters<typeof fetch>[1]);
      if (response.status >= 300 && response.status < 400) {
        await response.body?.cancel();
        throw new EgressRefused(`${url.host} redirects (HTTP ${response.status}); redirects are not followed`);
      }
      const chunks: Uint8Array[] = [];
      for await (const chunk of bounded(response.body, url, MAX_BYTES)) chunks.push(chunk);
      const { status } = response;
      const headers = new Headers([...response.headers]);
      const body = new Uint8Array(Buffer.concat(chunks));
      return new Response(status === 204 ? null : body, { status, headers });
    } catch (error) {
      throw error instanceof EgressRefused ? error : failed(url, error as Error, TIMEOUT_MS, ISSUER);
    } finally {
      void dispatcher.close();
    }
  };
}

/**
 * The body of a possibly large file, piece by piece; rejects with EgressRefused or FetchFailed. As `guardedFetch`, but up to
 * `maxBytes`, within 10 min and without 30 s of silence, and over up to five redirects, each checked like the first URL.
 */
export async function* guardedDownload(
  resolver: Resolver,
  target: string,
  hosts: readonly string[],
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  const { Agent, fetch } = await import('undici');
  const signal = AbortSignal.timeout(DOWNLOAD_MS);
  let url = new URL(target);
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const trusted = hosts.includes(url.host);
    refuse(url, trusted, BY_HAND);
    const lookup = trusted ? resolver.lookup : resolver.publicLookup;
    const connect = { lookup, timeout: TIMEOUT_MS };
    const dispatcher = new Agent({ connect, pipelining: 0, headersTimeout: SILENCE_MS, bodyTimeout: SILENCE_MS });
    try {
      const response = await fetch(url, { redirect: 'manual', signal, dispatcher });
      const location = response.status >= 300 && response.status < 400 ? response.headers.get('location') : null;
      if (location === null) {
        if (!response.ok) throw new EgressRefused(`${url.host} answers ${response.status}`);
        yield* bounded(response.body, url, maxBytes);
        return;
      }
      url = new URL(location, url);
    } catch (error) {
      throw error instanceof EgressRefused ? error : failed(url, error as Error, DOWNLOAD_MS, BY_HAND);
    } finally {
      void dispatcher.destroy();
    }
  }
  throw new EgressRefused(`${url.host} redirects for the ${MAX_REDIRECTS + 1}th time`);
}

/** The remedy if an address of this machine or its network is intended. */
const ISSUER = 'name it: set auth.issuer in the definition';
const BY_HAND = 'download the file yourself';

/** Checks before the name is resolved; the resolver refuses names with addresses that are not public. */
function refuse(url: URL, inside: boolean, remedy: string): void {
  const host = bareHost(url.hostname);
  if (url.username !== '' || url.password !== '') throw new EgressRefused(`an address at ${url.host} holds a password`);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && inside && isLoopbackHost(host))) {
    throw new EgressRefused(`${url.host} is reached without TLS`);
  }
  if (!inside && isInternalHost(url)) throw new EgressRefused(internalAddressMessage(url, remedy));
}

function failed(url: URL, cause: Error, withinMs: number, remedy: string): Error {
  const { code = 'no connection' } = (cause.cause ?? cause) as NodeJS.ErrnoException;
  if (code === 'EACCES') return new EgressRefused(internalAddressMessage(url, remedy));
  const late = cause.name === 'TimeoutError';
  const words = late ? `does not answer within ${withinMs / 1000} s` : `cannot be reached (${code})`;
  return new FetchFailed(`${url.host} ${words}`, { cause });
}

function internalAddressMessage({ host }: URL, remedy: string): string {
  return `${host} is on this machine or its network; if that is right, ${remedy}`;
}

async function* bounded(body: AsyncIterable<Uint8Array> | null, { host }: URL, maxBytes: number) {
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > maxBytes) throw new EgressRefused(`${host} answers with more than ${maxBytes / 1024} KiB`);
    yield chunk;
  }
}

/** Whether the host of a URL is on this machine or its network, as far as its name shows. */
export function isInternalHost(url: URL): boolean {
  const host = bareHost(url.hostname);
  return isLoopbackHost(host) || (isIP(host) !== 0 && !isPublicAddress(host));
}

import { isIP } from 'node:net';
import { bareHost, isLoopbackHost, isPublicAddress } from '../../model/host-address.ts';
import type { Resolver } from './resolver.ts';

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 256 * 1024;

/** `fetch` for URLs that did not come from the operator's file. Rejects with EgressRefused or NotReached. */
export type GuardedFetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** The URL leads where the gateway does not go. The message has the host, never more of the URL. */
export class EgressRefused extends Error {}

/** No answer came, or not in time. The message has the host, never more of the URL. */
export class NotReached extends Error {}

/**
 * Makes a guarded fetch: https to public addresses only, and to the addresses that were checked; no proxy, no redirects,
 * 5 s, 256 KiB. `inside`: what names the URL is on this machine or its network itself, so such addresses are allowed, and
 * http on loopback (RFC 8252 §8.3). `hosts`: host and port of URLs that the operator has named, which may lead inside too.
 */
export function guardedFetch(resolver: Resolver, inside: boolean, hosts: readonly string[] = []): GuardedFetch {
  return async (target, init = {}) => {
    const url = new URL(target);
    const trusted = inside || hosts.includes(url.host);
    refuse(url, trusted);
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
      const body = await bounded(response.body, url);
      const { status } = response;
      const headers = new Headers([...response.headers]);
      return new Response(status === 204 ? null : body, { status, headers });
    } catch (error) {
      throw error instanceof EgressRefused ? error : failed(url, error as Error);
    } finally {
      void dispatcher.close();
    }
  };
}

/** What is refused before a name is looked up: the lookup itself refuses names that lead inside. */
function refuse(url: URL, inside: boolean): void {
  const host = bareHost(url.hostname);
  if (url.username !== '' || url.password !== '') throw new EgressRefused(`an address at ${url.host} holds a password`);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && inside && isLoopbackHost(host))) {
    throw new EgressRefused(`${url.host} is reached without TLS`);
  }
  if (inside) return;
  if (isLoopbackHost(host) || (isIP(host) !== 0 && !isPublicAddress(host))) {
    throw new EgressRefused(insideWords(url));
  }
}

function failed(url: URL, cause: Error): Error {
  const { code = 'no connection' } = (cause.cause ?? cause) as NodeJS.ErrnoException;
  if (code === 'EACCES') return new EgressRefused(insideWords(url));
  const late = cause.name === 'TimeoutError';
  const words = late ? `does not answer within ${TIMEOUT_MS / 1000} s` : `cannot be reached (${code})`;
  return new NotReached(`${url.host} ${words}`, { cause });
}

function insideWords({ host }: URL): string {
  return `${host} is on this machine or its network; if that is right, name it: set auth.issuer in the definition`;
}

async function bounded(body: AsyncIterable<Uint8Array> | null, { host }: URL): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > MAX_BYTES) throw new EgressRefused(`${host} answers with more than ${MAX_BYTES / 1024} KiB`);
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

/** Whether the host of a URL is on this machine or its network, as far as its name says. */
export function isInside(url: URL): boolean {
  const host = bareHost(url.hostname);
  return isLoopbackHost(host) || (isIP(host) !== 0 && !isPublicAddress(host));
}

import type { TlsSpec } from '../../model/server.ts';
import { type CommonOptions, HttpClient } from './client.ts';
import type { HttpClientPort } from './client-port.ts';
import { type ProxyEnvironment, proxyFor } from './proxy-choice.ts';
import { Resolver } from './resolver.ts';
import { UndiciClient } from './undici-client.ts';

export interface OpenHttpClientOptions extends CommonOptions {
  readonly tls?: TlsSpec;
  /** The source of HTTPS_PROXY and similar variables; without it no proxy is used. */
  readonly env?: ProxyEnvironment;
  /** A resolver that all clients of the process share keeps look-ups at two at a time. */
  readonly resolver?: Resolver;
  /** Refuses names that resolve to this machine or its network. */
  readonly publicOnly?: boolean;
}

/**
 * `HttpClient` for plain HTTP, undici for TLS and proxies. Throws TypeError for other schemes and for a proxy variable that
 * is not a URL.
 */
export function openHttpClient(url: URL | string, options: OpenHttpClientOptions = {}): HttpClientPort {
  const { tls = {}, env, publicOnly = false, resolver = new Resolver(options), ...common } = options;
  const origin = new URL(url);
  if (origin.protocol !== 'http:' && origin.protocol !== 'https:') throw new TypeError('only http and https URLs');
  const proxy = env === undefined ? null : proxyFor(origin, env);
  const lookup = publicOnly ? resolver.publicLookup : resolver.lookup;
  if (origin.protocol === 'http:' && proxy === null) return new HttpClient(origin, { ...common, lookup });
  return new UndiciClient(origin, { ...common, lookup, tls, proxy });
}

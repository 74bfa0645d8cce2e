import type { Clock } from '../../model/clock.ts';
import type { TlsSpec } from '../../model/server.ts';
import { HttpClient } from './client.ts';
import type { HttpClientPort } from './client-port.ts';
import type { PhaseTimes } from './phase-times.ts';
import { type ProxyEnvironment, proxyFor } from './proxy-choice.ts';
import { Resolver } from './resolver.ts';
import { UndiciClient } from './undici-client.ts';

export interface OpenHttpClientOptions {
  readonly tls?: TlsSpec;
  /** The source of HTTPS_PROXY and similar variables; without it no proxy is used. */
  readonly env?: ProxyEnvironment;
  /** A resolver that all clients of the process share keeps look-ups at two at a time. */
  readonly resolver?: Resolver;
  /** Refuses names that resolve to this machine or its network. */
  readonly publicOnly?: boolean;
  readonly clock?: Clock;
  readonly connectTimeoutMs?: number;
  readonly headTimeoutMs?: number;
  readonly bodyPauseMs?: number;
  /** Records the duration of the phases of requests; null for none. */
  readonly phases?: PhaseTimes | null;
}

/**
 * `HttpClient` for plain HTTP, undici for TLS and proxies. Throws TypeError for other schemes and for a proxy variable that
 * is not a URL.
 */
export function openHttpClient(url: URL | string, options: OpenHttpClientOptions = {}): HttpClientPort {
  const { clock, connectTimeoutMs, headTimeoutMs, bodyPauseMs, phases = null } = options;
  const origin = new URL(url);
  if (origin.protocol !== 'http:' && origin.protocol !== 'https:') throw new TypeError('only http and https URLs');
  const proxy = options.env === undefined ? null : proxyFor(origin, options.env);
  const resolver = options.resolver ?? new Resolver(clock === undefined ? {} : { clock });
  const lookup = options.publicOnly === true ? resolver.publicLookup : resolver.lookup;
  const common = {
    lookup,
    phases,
    ...(clock === undefined ? {} : { clock }),
    ...(connectTimeoutMs === undefined ? {} : { connectTimeoutMs }),
    ...(headTimeoutMs === undefined ? {} : { headTimeoutMs }),
    ...(bodyPauseMs === undefined ? {} : { bodyPauseMs }),
  };
  if (origin.protocol === 'http:' && proxy === null) return new HttpClient(origin, common);
  return new UndiciClient(origin, { ...common, tls: options.tls ?? {}, proxy });
}

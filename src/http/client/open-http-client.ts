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
  /** Where HTTPS_PROXY and the like are looked up; without it none are used. */
  readonly env?: ProxyEnvironment;
  /** One for all clients of the process keeps look-ups at two at once. */
  readonly resolver?: Resolver;
  /** Refuses names that lead to this machine or its network. */
  readonly publicOnly?: boolean;
  readonly clock?: Clock;
  readonly connectTimeoutMs?: number;
  readonly headTimeoutMs?: number;
  readonly bodyPauseMs?: number;
  /** Where it is taken down how long what takes. */
  readonly phases?: PhaseTimes | null;
}

/**
 * The lean client for plain HTTP, undici for TLS and proxies. Throws TypeError for other schemes and for a proxy
 * variable that is not a URL.
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

import { isIP } from 'node:net';
import { bareHost, isLoopbackHost, unmapped } from '../../model/host-address.ts';
import { AddressSet, isWildcardAddress } from '../address.ts';
import type { HttpContext } from '../context/http-context.ts';

/** Which hosts, origins and proxies the listener accepts. Replaced as a whole when the configuration changes. */
export interface GateSettings {
  /** The bind address. */
  readonly host: string;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly trustedProxies: readonly string[];
}

const AUTHORITY = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?$/;
const ORIGIN = /^https?:\/\/(.+)$/;
const MAX_REMEMBERED = 256;

/**
 * Host and Origin checks, which protect against DNS rebinding and pages of other sites. Without `allowedHosts` only
 * loopback names and the local address of the connection are accepted; without `allowedOrigins` only pages on loopback.
 * Immutable except for a small cache of accepted values.
 */
export class RequestGate {
  readonly #names: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  readonly #proxies: AddressSet;
  readonly #wildcard: boolean;
  readonly #acceptedHosts = new Set<string>();
  readonly #acceptedOrigins = new Set<string>();
  readonly #trusting: boolean;

  constructor(settings: GateSettings) {
    this.#wildcard = isWildcardAddress(settings.host);
    this.#names = new Set([...settings.allowedHosts, ...(this.#wildcard ? [] : [settings.host])].map(normalHost));
    this.#origins = new Set(settings.allowedOrigins.map(normalOrigin));
    this.#proxies = new AddressSet(settings.trustedProxies);
    this.#trusting = settings.trustedProxies.length > 0;
  }

  /** Whether the X-Forwarded-* headers of this connection are trusted. */
  trusts(http: HttpContext): boolean {
    return this.#trusting && this.#proxies.has(http.socket.remoteAddress ?? '');
  }

  /** The authority that the client requested: X-Forwarded-Host from a trusted proxy, else Host. */
  authority(http: HttpContext): string | undefined {
    if (this.#trusting && http.headers['x-forwarded-host'] !== undefined && this.trusts(http)) {
      return lastOf(http.headers['x-forwarded-host']);
    }
    return http.headers.host;
  }

  allowsHost(authority: string, http: HttpContext): boolean {
    if (this.#acceptedHosts.has(authority)) return true;
    const parts = AUTHORITY.exec(authority.toLowerCase());
    if (parts === null || Number(parts[2] ?? 0) > 65_535) return false;
    const host = bareHost(parts[1]!);
    if (isLoopbackHost(host) || this.#names.has(host) || this.#names.has(authority.toLowerCase())) {
      remember(this.#acceptedHosts, authority);
      return true;
    }
    // A literal address cannot be rebound; it is accepted if the connection arrived at it.
    return this.#wildcard && isIP(host) !== 0 && host === unmapped(http.socket.localAddress ?? '');
  }

  allowsOrigin(origin: string): boolean {
    if (this.#acceptedOrigins.has(origin)) return true;
    const lower = origin.toLowerCase();
    if (!this.#origins.has(lower)) {
      const authority = AUTHORITY.exec(ORIGIN.exec(lower)?.[1] ?? '');
      if (authority === null || !isLoopbackHost(bareHost(authority[1]!))) return false;
    }
    remember(this.#acceptedOrigins, origin);
    return true;
  }

  /** Whether pages of this origin may read the answers: only for origins that the operator named. */
  allowsCors(origin: string): boolean {
    return this.#origins.size > 0 && this.#origins.has(origin.toLowerCase());
  }
}

/** The last element of a list header, which the nearest proxy wrote. */
export function lastOf(value: string | string[]): string {
  const text = Array.isArray(value) ? value.join(',') : value;
  return text.slice(text.lastIndexOf(',') + 1).trim();
}

function normalHost(host: string): string {
  return bareHost(host.toLowerCase());
}

function normalOrigin(origin: string): string {
  const lower = origin.toLowerCase();
  if (!ORIGIN.test(lower) || !URL.canParse(lower)) return lower;
  return new URL(lower).origin;
}

function remember(set: Set<string>, value: string): void {
  if (set.size >= MAX_REMEMBERED) set.clear();
  set.add(value);
}

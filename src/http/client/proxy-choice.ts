import { isIP } from 'node:net';
import { bareHost, isLoopbackHost, portOf } from '../../model/host-address.ts';
import { AddressSet } from '../address.ts';

/** HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY, in either case, as in the environment. */
export type ProxyEnvironment = Readonly<Record<string, string | undefined>>;

/**
 * The proxy for a URL, or null for a direct connection. Loopback never uses a proxy. NO_PROXY takes names with all their
 * subdomains (with or without a leading dot or `*.`), addresses, CIDR blocks, each with an optional port, and `*`.
 */
export function proxyFor(url: URL, environment: ProxyEnvironment): URL | null {
  const host = bareHost(url.hostname).toLowerCase();
  if (isLoopbackHost(host) || excepted(host, String(portOf(url)), read(environment, 'NO_PROXY'))) return null;
  const own = url.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const value = read(environment, own) || read(environment, 'ALL_PROXY');
  if (value === '') return null;
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`;
  if (!URL.canParse(text)) throw new TypeError(`${own} is not the URL of a proxy`);
  return new URL(text);
}

function excepted(host: string, port: string, list: string): boolean {
  return list
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .some((entry) => matches(host, port, entry.toLowerCase()));
}

function matches(host: string, port: string, entry: string): boolean {
  if (entry === '*') return true;
  const withPort = /^(.+):([0-9]{1,5})$/.exec(entry);
  // A bare IPv6 address also ends in a colon and digits.
  if (withPort !== null && isIP(entry) === 0) {
    if (withPort[2] !== port) return false;
    entry = withPort[1]!;
  }
  entry = bareHost(entry);
  if (isIP(host) !== 0) {
    const block = entry.split('/')[0]!;
    return isIP(block) !== 0 && new AddressSet([entry]).has(host);
  }
  const name = entry.replace(/^\*?\./, '');
  return name !== '' && (host === name || host.endsWith(`.${name}`));
}

function read(environment: ProxyEnvironment, name: string): string {
  return environment[name.toLowerCase()] || environment[name] || '';
}

import { BlockList, isIP, isIPv4 } from 'node:net';

/** Returns 10.0.0.1 for `::ffff:10.0.0.1`, which is the same address on a dual-stack socket; any other address unchanged. */
export function unmapped(address: string): string {
  const lower = address.toLowerCase();
  if (lower.startsWith('::ffff:') && isIPv4(lower.slice(7))) return lower.slice(7);
  return address;
}

/** The host of a URL or Host header, without the brackets of an IPv6 address. */
export function bareHost(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
}

export function portOf({ port, protocol }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

/** An address or name to bind to or accept: no scheme, no port, no path. */
export function isHost(host: string): boolean {
  const bare = bareHost(host);
  if (isIP(bare) !== 0) return true;
  // Digits and dots alone are meant as an address, here an invalid one.
  if (/^[\d.]+$/.test(bare)) return false;
  return /^(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}))*\.?$/.test(bare);
}

/** Whether the address is in 127.0.0.0/8 or is ::1, also in mapped form. False for every name. */
export function isLoopbackAddress(address: string): boolean {
  const plain = unmapped(bareHost(address));
  if (isIPv4(plain)) return plain.startsWith('127.');
  return isIP(plain) === 6 && LOOPBACK_V6.check(plain, 'ipv6');
}

/** A loopback address, or `localhost`, which resolvers must keep on the machine (RFC 6761). */
export function isLoopbackHost(host: string): boolean {
  return host.toLowerCase() === 'localhost' || isLoopbackAddress(host);
}

const LOOPBACK_V6 = new BlockList();
LOOPBACK_V6.addAddress('::1', 'ipv6');

/** Non-public blocks (IANA special-purpose registries), IPv4 first. */
const SPECIAL: readonly (readonly [string, number, 'ipv4' | 'ipv6'])[] = [
  ['0.0.0.0', 8, 'ipv4'],
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.0.0.0', 24, 'ipv4'],
  ['192.0.2.0', 24, 'ipv4'],
  ['192.88.99.0', 24, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['198.18.0.0', 15, 'ipv4'],
  ['198.51.100.0', 24, 'ipv4'],
  ['203.0.113.0', 24, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
  ['2001:db8::', 32, 'ipv6'],
  ['2001::', 23, 'ipv6'],
  ['2002::', 16, 'ipv6'],
  ['3fff::', 20, 'ipv6'],
];

const special = new BlockList();
for (const [address, bits, family] of SPECIAL) special.addSubnet(address, bits, family);
/** The only public block of IPv6; mapped and translated IPv4 addresses are outside it. */
const global6 = new BlockList();
global6.addSubnet('2000::', 3, 'ipv6');

/** NAT64 (RFC 6052): in networks without IPv4 a resolver puts the IPv4 address of a host into the last four bytes. */
const translated = new BlockList();
translated.addSubnet('64:ff9b::', 96, 'ipv6');

export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !special.check(address, 'ipv4');
  if (isIP(address) === 6 && translated.check(address, 'ipv6')) return isPublicAddress(lastFourBytes(address));
  return isIP(address) === 6 && global6.check(address, 'ipv6') && !special.check(address, 'ipv6');
}

function lastFourBytes(address: string): string {
  const host = bareHost(new URL(`http://[${address}]`).hostname);
  const [high = '', low = ''] = host.replace(/::$/, ':0:0').replace('::', ':0:').split(':').slice(-2);
  const bytes = [Number.parseInt(high || '0', 16), Number.parseInt(low || '0', 16)];
  return bytes.flatMap((pair) => [pair >> 8, pair & 255]).join('.');
}

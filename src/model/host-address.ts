import { BlockList, isIP, isIPv4 } from 'node:net';

/** `::ffff:10.0.0.1` is the IPv4 address 10.0.0.1 on a dual-stack socket. Anything else comes back as it is. */
export function unmapped(address: string): string {
  const lower = address.toLowerCase();
  if (lower.startsWith('::ffff:') && isIPv4(lower.slice(7))) return lower.slice(7);
  return address;
}

/** The host of a URL or Host header without the brackets of an IPv6 address. */
export function bareHost(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
}

/** 127.0.0.0/8 and ::1, also mapped; never a name. */
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

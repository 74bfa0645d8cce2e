import { BlockList, isIP } from 'node:net';

/** Blocks that are not everybody's (IANA special-purpose registries), IPv4 first. */
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
/** Of IPv6, only this is given out to everybody; mapped and translated IPv4 addresses lie outside. */
const global6 = new BlockList();
global6.addSubnet('2000::', 3, 'ipv6');

/** Names that mean something within a machine or a network only, or the metadata service of a cloud. */
const LOCAL_NAME =
  /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|lan|home|corp|private|test|onion)$|\.arpa$/;

/**
 * Whether the host of a URL, as WHATWG writes it, is one that everybody can reach: decimal, octal and hexadecimal
 * spellings have become the address they mean by then. What a name resolves to is not looked at here.
 */
export function isPublicUrl(url: string): boolean {
  const host = new URL(url).hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
  const family = isIP(host);
  if (family === 4) return !special.check(host, 'ipv4');
  if (family === 6) return global6.check(host, 'ipv6') && !special.check(host, 'ipv6');
  return host.includes('.') && !LOCAL_NAME.test(host);
}

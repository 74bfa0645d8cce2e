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

/** Whether this bind address takes connections on every interface. */
export function isWildcardAddress(address: string): boolean {
  const plain = bareHost(address);
  return plain === '' || plain === '0.0.0.0' || (isIP(plain) === 6 && /^[0:]+$/.test(plain));
}

const LOOPBACK_V6 = new BlockList();
LOOPBACK_V6.addAddress('::1', 'ipv6');

/** A set of addresses and CIDR blocks, as in `trustedProxies`. Immutable. */
export class AddressSet {
  readonly #list = new BlockList();
  readonly #empty: boolean;

  /** Throws TypeError, naming the entry, when one is neither an address nor a block. */
  constructor(entries: readonly string[]) {
    this.#empty = entries.length === 0;
    for (const entry of entries) {
      const slash = entry.indexOf('/');
      const address = slash < 0 ? entry : entry.slice(0, slash);
      const family = isIP(address);
      const bits = slash < 0 ? (family === 4 ? 32 : 128) : prefixLength(entry.slice(slash + 1));
      if (family === 0 || bits < 0 || bits > (family === 4 ? 32 : 128)) {
        throw new TypeError(`${JSON.stringify(entry)} is neither an IP address nor a CIDR block`);
      }
      this.#list.addSubnet(address, bits, family === 4 ? 'ipv4' : 'ipv6');
    }
  }

  has(address: string): boolean {
    if (this.#empty) return false;
    const plain = unmapped(address);
    const family = isIP(plain);
    return family !== 0 && this.#list.check(plain, family === 4 ? 'ipv4' : 'ipv6');
  }
}

function prefixLength(text: string): number {
  return /^(?:0|[1-9][0-9]{0,2})$/.test(text) ? Number(text) : -1;
}

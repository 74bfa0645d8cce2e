import { BlockList, isIP } from 'node:net';
import { bareHost, unmapped } from '../model/host-address.ts';

/** Whether this bind address accepts connections on every interface. */
export function isWildcardAddress(address: string): boolean {
  const plain = bareHost(address);
  return plain === '' || plain === '0.0.0.0' || (isIP(plain) === 6 && /^[0:]+$/.test(plain));
}

/** A set of addresses and CIDR blocks, as in `trustedProxies`. Immutable. */
export class AddressSet {
  readonly #list = new BlockList();
  readonly #empty: boolean;

  /** Throws TypeError, which names the entry, if one is neither an address nor a block. */
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

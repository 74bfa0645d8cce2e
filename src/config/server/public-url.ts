import { isIP } from 'node:net';
import { isPublicAddress } from '../../model/host-address.ts';

/** Names that mean something within a machine or a network only, or the metadata service of a cloud. */
const LOCAL_NAME =
  /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|lan|home|corp|private|test|onion)$|\.arpa$/;

/**
 * Whether the host of a URL, as WHATWG writes it, is one that everybody can reach: decimal, octal and hexadecimal
 * spellings have become the address they mean by then. What a name resolves to is looked at when it is connected to.
 */
export function isPublicUrl(url: string): boolean {
  const host = new URL(url).hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
  if (isIP(host) !== 0) return isPublicAddress(host);
  return host.includes('.') && !LOCAL_NAME.test(host);
}

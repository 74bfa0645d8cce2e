import { isIP } from 'node:net';

/** An address or name to bind to or accept: no scheme, no port, no path. */
export function isHost(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  if (isIP(bare) !== 0) return true;
  // What is made of digits and dots only is meant as an address, and is a wrong one.
  if (/^[\d.]+$/.test(bare)) return false;
  return /^(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}))*\.?$/.test(bare);
}

/** An address, or a block of them as in `10.0.0.0/8`. */
export function isAddressBlock(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

/** A host name that may be accepted, with or without port, or `*.example.com`. */
export function isHostPattern(text: string): boolean {
  const withoutPort = /^\[.*\]$/.test(text) || isIP(text) === 6 ? text : text.replace(/:\d{1,5}$/, '');
  return isHost(withoutPort.replace(/^\*\./, ''));
}

/** A browser origin: scheme, host and port, nothing after. */
export function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  return url.origin === 'null'
    ? /^[a-z][a-z0-9+.-]*:\/\/[A-Za-z0-9._-]+$/.test(text)
    : url.origin === text.toLowerCase();
}

import { isLoopbackHost, portOf } from '../../model/host-address.ts';
import type { TransportSpec } from '../../model/server.ts';

/** Address on which a gateway listens for clients. */
interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * Whether the server is the gateway at this address, as `trunkline link` writes it into client files: a gateway that serves such
 * a file would call itself.
 */
export function isSelfReference(transport: TransportSpec, { host, port }: Address): boolean {
  if (transport.type === 'stdio') {
    const words = [transport.command, ...transport.args];
    return words.includes('stdio') && words.some((word) => /(?:^|[\\/])(?:trunkline|tl)(?:\.js|@[^\\/]+)?$/.test(word));
  }
  const url = 'url' in transport ? URL.parse(transport.url) : null;
  if (url === null || !/^\/(?:servers\/[^/]+\/)?(?:mcp|sse)$/.test(url.pathname)) return false;
  return portOf(url) === port && (isLoopbackHost(url.hostname) || url.hostname === host);
}

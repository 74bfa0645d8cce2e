import { networkInterfaces } from 'node:os';
import { isWildcardAddress } from '../../http/address.ts';
import { nodeHttp } from '../../http/node-http.ts';

const PATIENCE_MS = 500;
const MAX_ADDRESSES = 4;
const MAX_BYTES = 4_096;

/** URLs at which other nodes reach a listener; for a wildcard, at the addresses of this machine. `mcpUrl` has scheme and port. */
export function reachableAt(mcpUrl: string, host: string): readonly string[] {
  if (mcpUrl === '') return [];
  const url = new URL('/health', mcpUrl);
  if (!isWildcardAddress(host)) return [url.href];
  const external = Object.values(networkInterfaces()).flatMap((some = []) => some.filter(({ internal }) => !internal));
  const usable = external.filter(({ family, scopeid }) => family === 'IPv4' || scopeid === 0);
  return usable.slice(0, MAX_ADDRESSES).map(({ address, family }) => {
    url.hostname = family === 'IPv6' ? `[${address}]` : address;
    return url.href;
  });
}

/** Returns whether the node answers at one of its addresses that it holds its lease. Never rejects. */
export async function serves(peer: string, addresses: readonly string[]): Promise<boolean> {
  const states = await Promise.all(addresses.map((address) => stateAt(address, peer).catch(() => null)));
  return states.includes('ready');
}

/** Returns null if another gateway answers: seen from here, the address may belong to it. */
async function stateAt(address: string, peer: string): Promise<string | null> {
  const url = new URL(address);
  // The certificate need not match an address: the request has no secret, and the answer affects only readiness.
  const options = { headers: { host: 'localhost' }, signal: AbortSignal.timeout(PATIENCE_MS), agent: false } as const;
  const request =
    url.protocol === 'https:'
      ? process.getBuiltinModule('node:https').request(url, { ...options, rejectUnauthorized: false })
      : nodeHttp.request(url, options);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  request.on('error', reject).on('response', (response) => {
    let text = '';
    response.setEncoding('utf8').on('error', reject);
    response.on('data', (piece: string) => {
      text += piece;
      if (text.length > MAX_BYTES) request.destroy(new Error('too long'));
    });
    response.on('end', () => resolve(text));
  });
  request.end();
  const { node } = JSON.parse(await promise) as { readonly node?: { readonly peer: string; readonly state: string } };
  return node?.peer === peer ? node.state : null;
}

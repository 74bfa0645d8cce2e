import { hash } from 'node:crypto';
import type { ClientProfile } from './client-profile.ts';
import { Secret } from './secret.ts';
import type { CallerSeparation, Server, TransportSpec } from './server.ts';

/** Returns undefined for a server that treats all callers alike. */
export function separationOf(transport: TransportSpec): CallerSeparation | undefined {
  if (!('url' in transport)) return undefined;
  const { auth, forwardHeaders: headers = {} } = transport;
  const credentials = auth?.per === 'principal';
  return credentials || Object.keys(headers).length > 0 ? { credentials, headers } : undefined;
}

/** The key by which the server separates this client from others; empty if the server or the client has none. */
export function callerPartitionKey(
  { callerSeparation }: Pick<Server, 'callerSeparation'>,
  { principal, forwarded }: ClientProfile,
): string {
  if (callerSeparation === undefined) return '';
  const values = Object.keys(callerSeparation.headers).map((name) => forwarded?.[name] ?? null);
  if (callerSeparation.credentials) return JSON.stringify([principal.id, ...values]);
  return values.every((value) => value === null) ? '' : JSON.stringify([null, ...values]);
}

/** The definition for the callers with this key, which have connections, sessions and lists of their own. */
export function definitionFor(server: Server, partitionKey: string): Server {
  const [owner, ...values] = JSON.parse(partitionKey) as readonly (string | null)[];
  const { transport } = server;
  const headers: Record<string, Secret> = {};
  Object.values(server.callerSeparation!.headers).forEach((name, i) => {
    const value = values[i];
    if (value != null) headers[name] = new Secret(value);
  });
  const digest = hash('sha256', partitionKey, 'hex').slice(0, 16);
  return {
    ...server,
    transport: 'url' in transport ? { ...transport, headers: { ...transport.headers, ...headers } } : transport,
    isolation: server.isolation ?? 'session',
    caller: { digest, owner: owner ?? null, of: server.connectionDigest },
    connectionDigest: `${server.connectionDigest}.${digest}`,
  };
}

/** The kind of client at the server: clients of one kind get the same lists. */
export function kindAt(server: Pick<Server, 'callerSeparation'> | undefined, client: ClientProfile): string {
  const partitionKey = server === undefined ? '' : callerPartitionKey(server, client);
  return partitionKey === '' ? client.fingerprint : kindOf(client, hash('sha256', partitionKey, 'hex').slice(0, 16));
}

/** As `kindAt`, for callers whose digest is known. */
export function kindOf({ fingerprint }: ClientProfile, digest: string): string {
  return `${fingerprint}.${digest}`;
}

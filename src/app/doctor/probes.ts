import { execFile } from 'node:child_process';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { basename } from 'node:path';
import type { ConnectionOptions, PeerCertificate, TLSSocket } from 'node:tls';
import type { Resolver } from '../../http/client/resolver.ts';
import { bareHost, portOf } from '../../model/host-address.ts';
import { launcherOf } from '../../model/launchers.ts';
import type { HttpSpec } from '../../model/server.ts';

/** Extra facts for the report; none of them decides whether a step passed. */

const PROBE_MS = 5_000;

/** Returns the version of a program that starts others, such as npx or ssh; null if it does not report one. */
export function versionOf(file: string, env: Readonly<Record<string, string>>): Promise<string | null> {
  const program = basename(file);
  if (launcherOf(program) === null && program !== 'ssh') return Promise.resolve(null);
  return new Promise((resolve) => {
    const words = [program === 'ssh' ? '-V' : '--version'];
    execFile(file, words, { env, timeout: PROBE_MS }, (error, stdout, stderr) => {
      const [line = ''] = (stdout || stderr).split('\n');
      const version = /\d+\.\d+[\w.]*/.exec(line)?.[0];
      resolve(error !== null || version === undefined ? null : `${program} ${version}`);
    });
  });
}

export function addressesOf(resolver: Resolver, name: string): Promise<string | null> {
  return new Promise((resolve) => {
    resolver.resolve(name, (error, addresses) =>
      resolve(error === null ? addresses.map(({ address }) => address).join(', ') : null),
    );
  });
}

/** Returns the address that accepts a connection, and after how long; null if none does. */
export async function connectionOf(resolver: Resolver, url: URL): Promise<string | null> {
  const from = performance.now();
  const options = { host: bareHost(url.hostname), port: portOf(url), lookup: resolver.lookup, timeout: PROBE_MS };
  return opened(connectTcp(options), 'connect', (socket) => {
    const ms = Math.round(performance.now() - from);
    return `${socket.remoteAddress} port ${socket.remotePort} in ${ms} ms`;
  });
}

export interface CertificateFacts {
  readonly text: string;
  readonly daysLeft: number;
}

/** Returns the names and the validity of the certificate, trusted or not: the connection sends no data. */
export async function certificateOf(resolver: Resolver, url: URL, { tls }: HttpSpec): Promise<CertificateFacts | null> {
  const { connect } = await import('node:tls');
  const host = bareHost(url.hostname);
  const options: ConnectionOptions = {
    host,
    port: portOf(url),
    lookup: resolver.lookup,
    timeout: PROBE_MS,
    rejectUnauthorized: false,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(tls.cert === undefined ? {} : { cert: tls.cert }),
    ...(tls.key === undefined ? {} : { key: tls.key.reveal() }),
  };
  return opened(connect(options), 'secureConnect', (socket) => factsOf(socket.getPeerCertificate()));
}

function factsOf({ subjectaltname = '', subject, valid_to, issuer }: PeerCertificate): CertificateFacts | null {
  if (valid_to === undefined) return null;
  const names = subjectaltname.replaceAll(/\b(?:DNS|IP Address):/g, '') || String(subject?.CN ?? 'no name');
  const until = new Date(valid_to);
  const daysLeft = Math.floor((until.getTime() - Date.now()) / 86_400_000);
  const by = issuer?.CN === undefined ? '' : `, signed by ${issuer.CN}`;
  const days = daysLeft < 0 ? 'over' : `${daysLeft} days left`;
  return { text: `for ${names}, valid until ${until.toISOString().slice(0, 10)} (${days})${by}`, daysLeft };
}

function opened<S extends Socket | TLSSocket, T>(socket: S, event: string, found: (socket: S) => T): Promise<T | null> {
  return new Promise((resolve) => {
    const end = (result: T | null): void => {
      socket.destroy();
      resolve(result);
    };
    socket.once(event, () => end(found(socket)));
    socket.once('error', () => end(null));
    socket.once('timeout', () => end(null));
  });
}

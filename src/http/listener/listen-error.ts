import { connect, createServer } from 'node:net';
import { type DesiredState, unsafeExposure } from '../../model/desired-state.ts';
import { bareHost, portOf } from '../../model/host-address.ts';

/** The port could not be bound; the message gives the cause and the remedy. */
export class ListenError extends Error {
  readonly code: string;

  constructor(cause: NodeJS.ErrnoException, host: string, port: number, flag: string) {
    super(explain(cause, host, port, flag), { cause });
    this.name = 'ListenError';
    this.code = cause.code ?? 'UNKNOWN';
  }
}

/** Why a listener cannot be opened there now; null if it can. */
export function bindError(host: string, port: number): Promise<NodeJS.ErrnoException | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', resolve);
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

function explain(cause: NodeJS.ErrnoException, host: string, port: number, flag: string): string {
  switch (cause.code) {
    case 'EADDRINUSE':
      return (
        `${host}:${port} is in use by another process, perhaps another gateway. ` +
        `See which: ${process.platform === 'linux' ? `ss -ltnp 'sport = :${port}'` : process.platform === 'win32' ? `netstat -ano | findstr :${port}` : `lsof -nP -iTCP:${port} -sTCP:LISTEN`}. ` +
        `Stop it, or choose another port with ${flag} (0 takes any free one).`
      );
    case 'EACCES':
      return `The system does not let this user listen on port ${port}; choose one above 1023 with ${flag}.`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${host} is not an address of this machine; choose another with --host.`;
    default:
      return `Cannot listen on ${host}:${port}: ${cause.message}`;
  }
}

/**
 * Why a listener must not be opened this way, with the remedy; null if it may. For addresses that are not from a file;
 * `config/settings` checks those.
 */
export function bindProblem(desired: Pick<DesiredState, 'listen' | 'agents' | 'unknownCallers'>): string | null {
  const exposed = unsafeExposure(desired.listen, desired.unknownCallers, desired.agents.size > 0);
  if (exposed === null) return null;
  const missing = [
    ...(exposed.authenticated
      ? []
      : ['authentication (configure `agents` with keys, and leave `unknownCallers` at refuse)']),
    ...(exposed.encrypted
      ? []
      : ['encryption (`tls: { cert, key }`, or `trustedProxies` for a proxy that terminates TLS)']),
  ];
  return (
    `Listening on ${desired.listen.host} would open the gateway to other machines without ${missing.join(' and without ')}. ` +
    'Add it, listen on 127.0.0.1, or start with --insecure if the network itself is trusted.'
  );
}

/** Whether a program accepts connections at the URL. Sends nothing. Never rejects. */
export function isListening(url: string, timeoutMs = 2_000): Promise<boolean> {
  if (!URL.canParse(url)) return Promise.resolve(false);
  const there = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: bareHost(there.hostname), port: portOf(there) });
    const end = (listening: boolean): void => {
      socket.destroy();
      resolve(listening);
    };
    socket.setTimeout(timeoutMs, () => end(false));
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}

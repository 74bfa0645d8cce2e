import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { RunningGateway } from '../../app/running.ts';
import { isLoopbackHost } from '../../model/host-address.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT, usage } from '../exit-code.ts';

/** Certificates for mutual authentication between the command and a gateway on another machine. */
export interface RemoteTls {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

/** The gateway whose control listener `--server` names; null without `--server`. */
export function remoteGateway({
  flags,
  terminal,
}: CommandInput): (RunningGateway & { readonly tls: RemoteTls }) | null {
  const { gatewayUrl: server, tokenFile, ca, cert, key } = flags;
  if (server === undefined) return null;
  const url = URL.canParse(server) ? new URL(server) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw usage(
      `--server ${server} is not a URL; write the address of the control listener, as https://gateway.example.com:4271`,
    );
  }
  if (url.protocol === 'http:' && !isLoopbackHost(url.hostname)) {
    throw usage(`--server ${server} would send the token unencrypted; use https, or a tunnel to this machine`);
  }
  const file = (flag: string, path: string): Buffer => {
    try {
      return readFileSync(resolve(terminal.cwd, path));
    } catch (error) {
      throw usage(`--${flag} ${path} cannot be read: ${(error as Error).message}`);
    }
  };
  if ((cert === undefined) !== (key === undefined)) throw usage('--cert and --key belong together: give both');
  const from = tokenFile === undefined ? 'TRUNKLINE_TOKEN' : `--token-file ${tokenFile}`;
  const text = tokenFile === undefined ? terminal.env['TRUNKLINE_TOKEN'] : file('token-file', tokenFile).toString();
  const token = text?.trim() ?? '';
  if (token === '' && cert === undefined) {
    throw usage(
      '--server needs the control token of that gateway: set TRUNKLINE_TOKEN, or name a file with --token-file',
    );
  }
  // The error of `fetch` would show the token.
  if (/[^\u0021-\u007e]/.test(token))
    throw usage(`${from} holds blanks, line breaks or characters that no control token has; put the token alone there`);
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return {
    instance: { pid: 0, version: '', mcpUrl: '', controlUrl: url.href, files: [], startedAt: 0 },
    dataDir: '',
    place: null,
    token,
    execToken: null,
    tls: {
      ...(ca === undefined ? {} : { ca: file('ca', ca) }),
      ...(cert === undefined ? {} : { cert: file('cert', cert) }),
      ...(key === undefined ? {} : { key: file('key', key) }),
    },
  };
}

/** The `fetch` of undici with these certificates; the global `fetch` accepts none. */
export async function fetchWith(tls: RemoteTls): Promise<typeof fetch> {
  const { Agent, fetch: own } = await import('undici');
  const dispatcher = new Agent({ connect: { ...tls } });
  return ((url: URL, options: object) => own(url, { ...options, dispatcher })) as unknown as typeof fetch;
}

const UNTRUSTED = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);

/** What to do, by the listener that was not reached. */
const REMEDIES = {
  control: {
    untrusted: 'name its CA with --ca <file>',
    refused: 'check control.host and control.port of the gateway',
    plain: 'is this the port of the control listener?',
    certificate: 'a listener with control.tls.clientCa needs --cert and --key',
    tls: 'a listener with control.tls needs https',
  },
  mcp: {
    untrusted: 'set NODE_EXTRA_CA_CERTS to the file of its CA, for the clients too',
    refused: 'check listen.host and listen.port of the gateway',
    plain: 'write http://, or set tls in its configuration',
    certificate: 'check tls of the gateway',
    tls: 'a gateway with tls needs https',
  },
} as const;

/** An error that says why the gateway at that address was not reached, and the remedy. */
export function notReached(url: string, error: unknown, listener: keyof typeof REMEDIES = 'control'): CommandError {
  const { code = '', message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
  const { hostname, protocol } = new URL(url);
  const remedy = REMEDIES[listener];
  const why = (): string => {
    if (UNTRUSTED.has(code)) return `its certificate is not trusted (${message}); ${remedy.untrusted}`;
    if (code === 'CERT_HAS_EXPIRED') return 'its certificate has expired; renew it at the gateway';
    if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
      return `its certificate is not for ${hostname}; use a name that it has`;
    if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `there is no host ${hostname}; check the name`;
    if (code === 'ECONNREFUSED') return `nothing listens there; ${remedy.refused}`;
    if (code.startsWith('ERR_SSL_') && /wrong version|packet length|http request/i.test(`${code} ${message}`))
      return `it does not speak TLS; ${remedy.plain}`;
    if (code.startsWith('ERR_SSL_')) return `TLS failed (${message}); ${remedy.certificate}`;
    if (protocol === 'http:') return `${message}; ${remedy.tls}`;
    return message;
  };
  return new CommandError(EXIT.unreachable, `the gateway at ${url} was not reached: ${why()}`, { cause: error });
}

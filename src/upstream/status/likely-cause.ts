import { HttpFailure } from '../../http/client/http-failure.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { bareHost, isLoopbackHost, portOf } from '../../model/host-address.ts';
import type { HttpSpec, TransportSpec } from '../../model/server.ts';
import { type LaunchFailure, loginAdvice, type StartStep } from '../../model/server-state.ts';
import { causes } from '../../model/thrown.ts';
import { EngineError } from '../docker/engine.ts';
import type { FailureClass } from '../health/failure-class.ts';
import { Misconfigured } from '../process/command.ts';
import { refusalOf } from '../transport/http-refusal.ts';

/** The facts about a failed start. */
export interface FailedStart {
  readonly server: string;
  readonly transport: TransportSpec;
  readonly failure: FailureClass | null;
  readonly error: GatewayError | null;
  readonly missing: readonly string[];
  readonly inContainer: boolean;
  readonly exit: LaunchFailure['exit'];
  readonly timedOut: boolean;
  /** Host and port of the proxy for the server's URL; null or absent: none. */
  readonly proxy?: string | null;
}

/** Exit codes of shells and launchers. */
const NOT_EXECUTABLE = 126;
const NOT_FOUND = 127;
/** ssh's exit code if it could not run the command. */
const SSH_FAILED = 255;

/** The most likely cause and what to do about it; null if nothing is known beyond the error itself. */
export function likelyCause(start: FailedStart): string | null {
  const { transport, failure, error, missing, inContainer, exit, timedOut } = start;
  if (missing.length > 0) {
    return `${missing.join(', ')} is named in its definition, but is not set in the gateway's environment`;
  }
  if (failure === 'auth') {
    const refused = causes(start.error).some((at) => at instanceof GatewayError && refusalOf(at)?.status === 403);
    const what = refused ? 'it refuses this caller, or a firewall before it does (403)' : 'it asks for credentials';
    return `${what}; ${loginAdvice(start.server, transport)}`;
  }
  if ('url' in transport) return ofRemote(start, transport, inContainer && isHere(transport.url));
  if (error?.code === 'UPSTREAM_PROTOCOL') return OTHER_REVISION;
  if (failure === 'configuration') return 'its definition names something that is not there; see the error';
  if (transport.type === 'stdio' && transport.ssh != null && exit?.code === SSH_FAILED)
    return ofSsh(transport.ssh.host);
  if (exit?.code === NOT_FOUND) return 'a program that its command starts is not installed where it runs';
  if (exit?.code === NOT_EXECUTABLE) return 'a program that its command starts may not be executed';
  if (exit?.code === 0) return 'it ended by itself, as a program does that is no server or lacks an argument';
  if (exit !== null) return 'it ended by itself; its last words are in the tail of its standard error';
  if (timedOut) return 'it is waiting for something, is still fetching a package, or speaks no MCP on its output';
  return null;
}

/** The step at which the start failed. */
export function failedStep({ transport, failure, error, exit, timedOut }: FailedStart): StartStep {
  if (failure === 'auth') return 'login';
  if (exit !== null) {
    const bySsh = transport.type === 'stdio' && transport.ssh != null && exit.code === SSH_FAILED;
    return bySsh ? 'connection' : 'start';
  }
  for (const at of causes(error)) {
    if (at instanceof Misconfigured) return 'command';
    // An invalid setting found before anything was sent, such as a variable that names no proxy.
    if (at instanceof TypeError) return 'connection';
    if (at instanceof EngineError) return at.status === 0 ? 'connection' : 'start';
    if (at instanceof HttpFailure) return (at.sent ? null : STEP_OF[at.kind]) ?? 'http';
    if ('url' in transport && at instanceof GatewayError && refusalOf(at) !== null) return 'http';
    if ('code' in at && !(at instanceof GatewayError)) return 'url' in transport ? 'connection' : 'start';
  }
  return timedOut && 'url' in transport ? 'http' : 'initialize';
}

const STEP_OF: Readonly<Partial<Record<HttpFailure['kind'], StartStep>>> = {
  dns: 'name',
  refused: 'connection',
  timeout: 'connection',
  reset: 'connection',
  proxy: 'connection',
  tls: 'certificate',
};

const OTHER_REVISION =
  'it runs, and answers as no server of a revision that is known here; install another version of it, or update Trunkline';

const INSIDE =
  'the gateway runs in a container, where localhost is the container itself: name the host, as in host.docker.internal';

/** `inside`: the URL refers to the gateway's own container, which matters only if nothing answered there. */
function ofRemote({ error, timedOut, proxy = null }: FailedStart, { url }: HttpSpec, inside: boolean): string | null {
  for (const at of causes(error)) {
    const status = at instanceof GatewayError ? (refusalOf(at)?.status ?? 0) : 0;
    const words = ofStatus(status, new URL(url));
    if (words !== undefined) return words;
    if (at instanceof TypeError) return 'correct the variable, as in http://proxy.example:3128, or unset it';
    if (!(at instanceof HttpFailure)) continue;
    if (at.kind === 'tls') return ofTls(codeOf(at));
    if (at.kind === 'proxy')
      return 'the proxy of HTTPS_PROXY or HTTP_PROXY does not let it through; correct the proxy, or name the host in NO_PROXY';
    if (proxy !== null && !at.sent)
      return `the proxy ${proxy} of HTTPS_PROXY or HTTP_PROXY is not there; correct the variable, or name the host in NO_PROXY`;
    const reached = ofConnection(at, new URL(url));
    return !at.sent && inside ? `${reached}; ${INSIDE}` : reached;
  }
  if (error?.code === 'UPSTREAM_PROTOCOL') return ofAnswer(error.message, new URL(url));
  return timedOut ? `${placeOf(new URL(url))} ${SILENT}` : null;
}

const SILENT = "took the request and does not answer; look at that server's own log";

function placeOf(url: URL): string {
  return `${url.hostname}:${portOf(url)}`;
}

/** The cause for a status from the server or a proxy; null if unknown, undefined if the start did not end with a status. */
function ofStatus(status: number, { pathname }: URL): string | null | undefined {
  if (status < 300) return undefined;
  // The error already names the redirect target.
  if (status < 400) return null;
  if (status === 404 || status === 410) return `there is nothing at the path ${pathname}; ${otherPath(pathname)}`;
  if (status === 429)
    return 'it takes no more requests for now; it is tried again later, or ask its operator for a higher limit';
  if (status < 500) return `something answered at ${pathname}, but it does not serve MCP there; ${otherPath(pathname)}`;
  if (status === 502 || status === 504)
    return 'a proxy answered, and the server behind it did not; look whether that server runs';
  if (status === 503) return 'it is overloaded, or not ready yet; it is tried again';
  return 'the server answered, and failed by itself; its own log says why';
}

/** The server answered with success, but not in MCP. */
function ofAnswer(message: string, { pathname }: URL): string {
  const what = message.includes('content-type text/html')
    ? `what answered at ${pathname} is a web page, perhaps a login, and no MCP endpoint`
    : `what answered at ${pathname} is no MCP server`;
  return `${what}; ${otherPath(pathname)}`;
}

/** Suggests the paths that most servers use. */
function otherPath(pathname: string): string {
  const usual = ['/mcp', '/sse'].filter((path) => path !== pathname.replace(/\/+$/, ''));
  return `correct the path of its url, mostly ${usual.join(' or ')}`;
}

function ofConnection(failure: HttpFailure, url: URL): string {
  const { protocol, hostname } = url;
  const secure = protocol === 'https:';
  const place = placeOf(url);
  switch (failure.kind) {
    case 'dns':
      return codeOf(failure) === 'EAI_AGAIN'
        ? `no name server answers for ${hostname}; check the network, a VPN, or the name itself`
        : `no name server knows ${hostname}; correct the host in its url`;
    case 'timeout':
      return failure.sent
        ? `${place} ${SILENT}`
        : `${place} does not answer; check the address, and whether a firewall or a VPN is between`;
    case 'reset':
    case 'protocol':
      return secure
        ? `${place} ends the connection without an answer; look at that server's own log`
        : `what listens at ${place} does not speak plain HTTP; try https:// in its url, or correct the port`;
    default:
      return codeOf(failure) === 'ECONNREFUSED'
        ? `nothing listens at ${place}; start the server there, or correct host and port of its url`
        : `${place} cannot be reached from this machine; check the network, a VPN, or the address in its url`;
  }
}

const TLS_CAUSES: readonly (readonly [RegExp, string])[] = [
  [
    /SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET_ISSUER)/,
    'no authority that this machine knows has signed its certificate; name the file of that authority in tls.ca, or in NODE_EXTRA_CA_CERTS',
  ],
  [/EXPIRED/, 'its certificate has expired; have it renewed, and check the clock of this machine'],
  [/NOT_YET_VALID/, 'its certificate is not valid yet; check the clock of this machine'],
  [/ALTNAME|HOSTNAME/, 'its certificate is for other names; use one of them in its url'],
  [/ALERT|CERTIFICATE_REQUIRED/, 'it asks for a certificate of ours that it takes; name it in tls.cert and tls.key'],
  [
    /WRONG_VERSION|EPROTO|PACKET_LENGTH/,
    'it speaks no TLS at this port; write http:// in its url, or correct the port',
  ],
];

function ofTls(code: string): string {
  const [, words] = TLS_CAUSES.find(([pattern]) => pattern.test(code)) ?? [];
  return words ?? 'there is no secure connection to it; check the port, and the keys of tls';
}

/** The code of the deepest cause that has one. */
function codeOf(failure: HttpFailure): string {
  let code = '';
  for (const at of causes(failure)) if ('code' in at) code = String(at.code);
  return code;
}

function ofSsh(host: string): string {
  return `ssh could not log in to ${host}; try the same as this user: ssh -o BatchMode=yes ${host} true`;
}

function isHere(url: string): boolean {
  return URL.canParse(url) && isLoopbackHost(bareHost(new URL(url).hostname));
}

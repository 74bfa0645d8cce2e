import { AuthorizedClient } from '../../http/client/authorized-client.ts';
import type { HttpClientPort } from '../../http/client/client-port.ts';
import { encodeHeaders, HeaderBlock } from '../../http/client/header-block.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import type { Clock } from '../../model/clock.ts';
import type { CredentialLease } from '../../model/credentials.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Random } from '../../model/random.ts';
import { sanitizedDefinition } from '../../model/sanitized-definition.ts';
import { revealed } from '../../model/secret.ts';
import type { HttpSpec } from '../../model/server.ts';
import { messageOf } from '../../model/thrown.ts';
import { failureError, refusalError } from './http-refusal.ts';
import type { TransportReceiver } from './transport.ts';

/**
 * Limits of the HTTP wires. None of them limits how long a call may take: only the call's deadline does. The HTTP client limits
 * connecting (5 s), a head once begun (10 s) and a pause within a JSON body (30 s).
 */
const HTTP_LIMITS = {
  /** A stream that carried its answer and was not ended by the server is closed after this. */
  lingerMs: 5_000,
  /** After the server rejected the session or credentials, answers to the other requests may be this far apart. */
  settleMs: 250,
  /** Everything else waits this long for the acceptance of `notifications/initialized`. */
  initializedMs: 5_000,
  /** At close: time for the DELETE of the session and for side requests in progress. */
  closeMs: 2_000,
  /** Back-off of stream reconnects if the server sent no `retry`; doubled each time, with jitter. */
  reconnectMs: 500,
  reconnectMaxMs: 30_000,
  /** Failed reconnects in a row after which a broken reply stream is lost. */
  resumeAttempts: 5,
  /** 2024-11-05: from opening the stream to its `endpoint` event. */
  endpointMs: 30_000,
};
type HttpLimits = Readonly<typeof HTTP_LIMITS>;

/**
 * The header blocks of one connection: declared headers, accepted types, session and revision. Each is encoded when first
 * needed after a change, so that a call adds only its own few headers, and a connection holds no unused block.
 */
export class HttpHeads {
  readonly #common: CommonHeaders;
  #sessionId: string | null = null;
  #revision: string | null = null;
  #post: HeaderBlock | null = null;
  #postWithoutRevision: HeaderBlock | null = null;
  #get: HeaderBlock | null = null;

  constructor(common: CommonHeaders) {
    this.#common = common;
  }

  get sessionId(): string | null {
    return this.#sessionId;
  }

  session(id: string | null): void {
    this.#sessionId = id;
    this.#changed();
  }

  /** `MCP-Protocol-Version` of all later requests; null for revisions without the header. */
  revision(revision: string | null): void {
    this.#revision = revision;
    this.#changed();
  }

  /** For a POST with these extra headers; a revision among them replaces the connection's. */
  post(extra: readonly string[] | null): HeaderBlock {
    if (extra !== null && this.#revision !== null) {
      for (let i = 0; i < extra.length; i += 2) {
        const name = extra[i]!;
        if (name.length === 20 && name.toLowerCase() === 'mcp-protocol-version') {
          this.#postWithoutRevision ??= new HeaderBlock(this.#own(false), this.#common.post);
          return this.#postWithoutRevision;
        }
      }
    }
    this.#post ??= new HeaderBlock(this.#own(true), this.#common.post);
    return this.#post;
  }

  /** For GET (event stream) and DELETE. */
  get stream(): HeaderBlock {
    this.#get ??= new HeaderBlock(this.#own(true), this.#common.get);
    return this.#get;
  }

  #own(withRevision: boolean): string[] {
    const session = this.#sessionId === null ? [] : ['Mcp-Session-Id', this.#sessionId];
    if (withRevision && this.#revision !== null) session.push('MCP-Protocol-Version', this.#revision);
    return session;
  }

  #changed(): void {
    this.#post = null;
    this.#postWithoutRevision = null;
    this.#get = null;
  }
}

/** Encoded headers that all sessions of a definition share. */
interface CommonHeaders {
  readonly post: string;
  readonly get: string;
}

/** Options of the transports over HTTP. */
export interface HttpTransportOptions {
  /** Name of the server, for error messages. */
  readonly server: string;
  readonly spec: HttpSpec;
  readonly maxMessageBytes: number;
  readonly clock: Clock;
  readonly random: Random;
  /**
   * Opens a client of the origin; the transport closes it after it has ended its own requests. The caller may share one
   * (`HttpClientShare`).
   */
  readonly openClient: (url: URL) => HttpClientPort;
  /** Lease of the credential that the requests carry; null or absent without one. */
  readonly lease?: CredentialLease | null;
  readonly limits?: Partial<HttpLimits>;
}

/** Headers that the wire sets itself; declared headers with these names are ignored. */
const OWN_HEADERS = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-length',
  'content-type',
  'host',
  'last-event-id',
  'mcp-protocol-version',
  'mcp-session-id',
  'traceparent',
  'tracestate',
  'transfer-encoding',
]);

/** Headers by definition. Definitions are immutable and have one transport, so each is encoded once for all its sessions. */
const COMMON = new WeakMap<HttpSpec, CommonHeaders>();

/** The declared headers, without those that the wire sets. */
function commonHeaders(server: string, spec: HttpSpec, accept: string): CommonHeaders {
  const known = COMMON.get(spec);
  if (known !== undefined) return known;
  const pairs: string[] = [];
  let agent = false;
  for (const [name, value] of Object.entries(revealed(spec.headers))) {
    const lower = name.toLowerCase();
    if (OWN_HEADERS.has(lower)) continue;
    if (lower === 'user-agent') agent = true;
    pairs.push(name, value);
  }
  if (!agent) pairs.push('User-Agent', 'trunkline');
  try {
    const common = {
      post: encodeHeaders([...pairs, 'Content-Type', 'application/json', 'Accept', accept]),
      get: encodeHeaders([...pairs, 'Accept', 'text/event-stream']),
    };
    COMMON.set(spec, common);
    return common;
  } catch (cause) {
    throw unusable(server, (cause as TypeError).message, cause);
  }
}

/** The server's URL. Throws an error without its query or credentials. */
function parseServerUrl(server: string, text: string): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch (cause) {
    throw unusable(server, 'the url is not a valid URL', cause);
  }
  if (url.protocol === 'http:' || url.protocol === 'https:') return url;
  throw unusable(server, `the url begins with ${url.protocol}; only http: and https: are possible`);
}

/** The error for a definition that must be corrected. */
function unusable(server: string, words: string, cause?: unknown): GatewayError {
  return new GatewayError('NOT_SENT', `${server}: ${words}`, { server, retryable: false, cause });
}

/** Common part of the transports over HTTP: the URL, the client, the headers, and error messages. */
export abstract class UrlTransport {
  readonly pid = null;
  readonly options: HttpTransportOptions;
  readonly limits: HttpLimits;
  receiver!: TransportReceiver;
  client!: HttpClientPort;
  heads!: HttpHeads;
  url!: URL;
  /** Path and query of the URL. */
  path = '';
  /** Values to redact in errors, longest first. */
  protected secrets: readonly string[];
  protected state: 'new' | 'opening' | 'open' | 'dead' | 'closed' = 'new';

  constructor(options: HttpTransportOptions) {
    this.options = options;
    this.limits = options.limits === undefined ? HTTP_LIMITS : { ...HTTP_LIMITS, ...options.limits };
    this.secrets = sanitizedDefinition(options.spec).secrets;
  }

  /** The first step of `open`. Throws GatewayError. */
  protected connect(receiver: TransportReceiver, accept: string): void {
    const { server, spec, openClient, lease = null } = this.options;
    if (this.state !== 'new') throw this.error('NOT_SENT', 'the connection was opened before');
    this.url = parseServerUrl(server, spec.url);
    this.path = this.url.pathname + this.url.search;
    this.heads = new HttpHeads(commonHeaders(server, spec, accept));
    this.receiver = receiver;
    try {
      const client = openClient(this.url);
      this.client = lease === null ? client : new AuthorizedClient(client, lease, this.url.origin);
    } catch (cause) {
      throw unusable(server, messageOf(cause), cause);
    }
  }

  /** Reports a request as lost that cannot be sent any more. */
  protected refuse(request: number): void {
    if (request === 0 || this.state !== 'dead') return;
    this.receiver.lost(request, this.error('NOT_SENT', 'the connection has ended'));
  }

  stderrTail(): string {
    return '';
  }

  /** The error for a status that is not a success; `secret` is redacted too. */
  protected refusal(
    status: number,
    headers: ResponseHeaders,
    body: Buffer,
    secret: string | null = null,
  ): GatewayError {
    const { server, clock } = this.options;
    const more = [...(this.options.lease?.secrets ?? []), ...(secret === null ? [] : [secret])];
    const secrets = more.length === 0 ? this.secrets : [...more, ...this.secrets];
    return refusalError({ server, secrets, wallMs: clock.wall() }, status, headers, body);
  }

  /** The error for a request without a complete response. */
  failure(failure: HttpFailure): GatewayError {
    return failureError(this.options.server, failure, this.options.maxMessageBytes);
  }

  error(code: GatewayError['code'], words: string, cause?: unknown): GatewayError {
    const { server } = this.options;
    return new GatewayError(code, `${server}: ${words}`, { server, cause: cause ?? undefined });
  }
}

interface Shared {
  readonly phases: PhaseTimes | null;
  readonly client: HttpClientPort;
  leases: number;
  stopClosing: (() => void) | null;
}

/** How long connections are kept after the last session: shorter than any server or device keeps an idle one. */
const BETWEEN_SESSIONS_MS = 200;

/**
 * One pool of kept connections for all transports of a server, for any number of sessions. Closing a lease only returns it: its
 * holder has ended its own requests. The pool is closed a moment after its last lease, so that consecutive short sessions do
 * not reconnect.
 */
export class HttpClientShare {
  readonly #clock: Clock;
  readonly #shared = new Map<string, Shared>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * `key`: identifies the client (a server's connection digest); `phases`: receives its times; `open`: creates it if there is
   * none. A server that was removed and added again has new phases.
   */
  lease(key: string, phases: PhaseTimes | null, open: () => HttpClientPort): HttpClientPort {
    let shared = this.#shared.get(key);
    if (shared === undefined || shared.phases !== phases) {
      shared = { client: open(), phases, leases: 0, stopClosing: null };
      this.#shared.set(key, shared);
    }
    const held = shared;
    held.leases++;
    held.stopClosing?.();
    held.stopClosing = null;
    let given = false;
    return {
      request: (request, handler) => held.client.request(request, handler),
      close: () => {
        if (given) return;
        given = true;
        if (--held.leases > 0) return;
        held.stopClosing = this.#clock.after(BETWEEN_SESSIONS_MS, () => {
          if (this.#shared.get(key) === held) this.#shared.delete(key);
          held.client.close();
        });
      },
    };
  }
}

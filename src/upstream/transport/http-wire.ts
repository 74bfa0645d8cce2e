import type { HttpClientPort } from '../../http/client/client-port.ts';
import { encodeHeaders } from '../../http/client/header-block.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Random } from '../../model/random.ts';
import { revealed } from '../../model/secret.ts';
import type { HttpSpec } from '../../model/server.ts';
import type { HttpLimits } from './http-limits.ts';

/** What the transports over HTTP are built from. */
export interface HttpTransportOptions {
  /** Name of the server, for the words of errors. */
  readonly server: string;
  readonly spec: HttpSpec;
  readonly maxMessageBytes: number;
  readonly clock: Clock;
  readonly random: Random;
  /**
   * Gives the transport a client of the origin; the transport closes it, having ended all its own requests before.
   * Sharing one is the opener's affair (`HttpClientShare`).
   */
  readonly openClient: (url: URL) => HttpClientPort;
  readonly limits?: Partial<HttpLimits>;
}

/** Headers that the wire itself decides on; a declaration of the same name has no effect. */
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
  'transfer-encoding',
]);

/** Definitions do not change: what is read of one is read once, however many sessions it is connected for. */
const DECLARED = new WeakMap<HttpSpec, readonly string[]>();

/** Declared headers, name and value alternating: what the operator wrote, less what is the wire's own. */
export function declaredHeaders(server: string, spec: HttpSpec): readonly string[] {
  let declared = DECLARED.get(spec);
  if (declared === undefined) DECLARED.set(spec, (declared = headersOf(server, spec)));
  return declared;
}

function headersOf(server: string, spec: HttpSpec): string[] {
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
    encodeHeaders(pairs);
  } catch (cause) {
    const words = `${server}: ${(cause as TypeError).message}`;
    throw new GatewayError('NOT_SENT', words, { server, retryable: false, cause });
  }
  return pairs;
}

/** The server's URL, or the error that says what is wrong with it (never with its query or user part). */
export function parseServerUrl(server: string, text: string): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch (cause) {
    throw new GatewayError('NOT_SENT', `${server}: the url is not a valid URL`, { server, retryable: false, cause });
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    const words = `${server}: the url begins with ${url.protocol}; only http: and https: are possible`;
    throw new GatewayError('NOT_SENT', words, { server, retryable: false });
  }
  return url;
}

/** The client for the server's origin; a GatewayError instead of whatever keeps it from being made. */
export function clientFor(options: HttpTransportOptions, url: URL): HttpClientPort {
  try {
    return options.openClient(url);
  } catch (cause) {
    const { server } = options;
    const words = `${server}: ${cause instanceof Error ? cause.message : String(cause)}`;
    throw new GatewayError('NOT_SENT', words, { server, retryable: false, cause });
  }
}

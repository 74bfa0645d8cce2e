import { GatewayError } from '../../model/gateway-error.ts';
import { duplicateKey, field } from '../../protocol/fields.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';

/** What a program asks for (S0.6). */
export interface ToolRequest {
  /** The caller's own isolation key, of whatever it takes for a conversation; `default` where it says none. */
  readonly sessionId: string;
  /** Empty for a list. */
  readonly tool: string;
  /** JSON text, as the caller wrote it, to the digit. */
  readonly args: string;
  /** What the caller still has, if it says so; beside `timeout_ms` also in the header `Trunkline-Timeout-Ms`. */
  readonly timeoutMs: number | null;
}

const MAX_SESSION_ID = 512;
const DEFAULT_SESSION = 'default';
const HEAD = Buffer.from('{"jsonrpc":"2.0","id":1,"method":"m","params":');
const TAIL = Buffer.from('}');

/** Reads a call. Throws GatewayError for what is none. */
export function readToolRequest(payload: Buffer): ToolRequest {
  // What is passed on has to be as sound as what comes over HTTP: well-formed UTF-8, nested within reason.
  const scanned = scanMessage(Buffer.concat([HEAD, payload, TAIL]), 'stateful', 'strict');
  const request = isScanFailure(scanned) ? null : readObject(payload);
  if (request === null) throw new GatewayError('PARSE_ERROR', 'the request is not a sound JSON object');
  const twice = duplicateKey(payload, 0, payload.length);
  if (twice !== null) throw new GatewayError('INVALID_REQUEST', `the key ${JSON.stringify(twice)} appears twice`);
  const { tool, args } = request;
  if (typeof tool !== 'string' || tool === '')
    throw new GatewayError('INVALID_PARAMS', '"tool" must be the name of a tool');
  if (args !== undefined && args !== null && (typeof args !== 'object' || Array.isArray(args))) {
    throw new GatewayError('INVALID_PARAMS', '"args" must be a map of arguments');
  }
  return { ...conversation(request), tool, args: argsText(payload) };
}

/** Reads a request for a list. Nothing in it is needed, so that nothing is wrong with it: empty, invalid, anything. */
export function readListRequest(payload: Buffer): ToolRequest {
  return { ...conversation(readObject(payload) ?? {}), tool: '', args: '{}' };
}

function conversation(request: Readonly<Record<string, unknown>>): Pick<ToolRequest, 'sessionId' | 'timeoutMs'> {
  const { session_id: id, timeout_ms: timeout } = request;
  if (typeof id === 'string' && id.length > MAX_SESSION_ID) {
    throw new GatewayError('INVALID_PARAMS', `"session_id" is longer than ${MAX_SESSION_ID} characters`);
  }
  return {
    sessionId: typeof id === 'string' && id !== '' ? id : DEFAULT_SESSION,
    timeoutMs: typeof timeout === 'number' && timeout > 0 ? timeout : null,
  };
}

/** The arguments as bytes stand, not as JavaScript would write them; `{}` for none and null. */
function argsText(payload: Buffer): string {
  const range = field(payload, 0, payload.length, 'args');
  const text = range === null ? 'null' : payload.toString('utf8', range.start, range.end);
  return text === 'null' ? '{}' : text;
}

function readObject(payload: Buffer): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(payload.toString());
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

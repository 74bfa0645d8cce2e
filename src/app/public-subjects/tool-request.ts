import { GatewayError } from '../../model/gateway-error.ts';
import { parseObject } from '../../model/json-object.ts';
import { duplicateKey, field } from '../../protocol/fields.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';

/** A request of a program (S0.6). */
export interface ToolRequest {
  /** The caller's key of a conversation; `default` if it sends none. */
  readonly sessionId: string;
  /** Empty for a list. */
  readonly tool: string;
  /** JSON text exactly as the caller wrote it. */
  readonly args: string;
  /** From `timeout_ms`; null without it, and then the header `Trunkline-Timeout-Ms` applies. */
  readonly timeoutMs: number | null;
}

const MAX_SESSION_ID = 512;
const DEFAULT_SESSION = 'default';
const HEAD = Buffer.from('{"jsonrpc":"2.0","id":1,"method":"m","params":');
const TAIL = Buffer.from('}');

/** Parses a call. Throws GatewayError for an invalid one. */
export function readToolRequest(payload: Buffer): ToolRequest {
  // The same checks as for requests over HTTP: well-formed UTF-8, limited nesting.
  const scanned = scanMessage(Buffer.concat([HEAD, payload, TAIL]), 'stateful', 'strict');
  const request = isScanFailure(scanned) ? null : parseObject(payload.toString());
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

/** Parses a request for a list; its payload may be empty or invalid. Throws GatewayError only for a long `session_id`. */
export function readListRequest(payload: Buffer): ToolRequest {
  return { ...conversation(parseObject(payload.toString()) ?? {}), tool: '', args: '{}' };
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

/** Returns the bytes of the arguments unchanged; `{}` for none and null. */
function argsText(payload: Buffer): string {
  const range = field(payload, 0, payload.length, 'args');
  const text = range === null ? 'null' : payload.toString('utf8', range.start, range.end);
  return text === 'null' ? '{}' : text;
}

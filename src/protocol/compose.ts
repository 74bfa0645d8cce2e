import type { ErrorCode } from '../model/error-catalogue.ts';
import type { GatewayError } from '../model/gateway-error.ts';
import { type Era, Message, type MessageKind } from '../model/message.ts';

/** Composes messages of the gateway. Bodies are JSON text or bytes and stay unchanged; ids are lexemes as in `Message.id`. */

const HEAD = '{"jsonrpc":"2.0"';
/** Errors repeat names that clients chose; a part of a very long one is enough. */
const MAX_MESSAGE_LENGTH = 1_000;

export function request(method: string, idLexeme: string, paramsJson: string | Buffer | null, era: Era): Message {
  return compose('request', era, method, idLexeme, 'params', paramsJson);
}

export function notification(method: string, paramsJson: string | Buffer | null, era: Era): Message {
  return compose('notification', era, method, '', 'params', paramsJson);
}

/** Cancels the request with this id, in either direction. */
export function cancellation(idLexeme: string, reason: string, era: Era): Message {
  const params = `{"requestId":${idLexeme},"reason":${JSON.stringify(reason)}}`;
  return notification('notifications/cancelled', params, era);
}

/** A success always has a `result` (S2.16): `{}` is the empty one. */
export function result(idLexeme: string, resultJson: string | Buffer, era: Era): Message {
  return compose('result', era, '', idLexeme, 'result', resultJson);
}

/** An empty id lexeme answers a request whose id could not be read: without id, or with null in old revisions. */
export function errorAnswer(
  idLexeme: string,
  code: number,
  message: string,
  dataJson: string | null,
  era: Era,
): Message {
  const data = dataJson === null ? '' : `,"data":${dataJson}`;
  const error = `{"code":${code},"message":${JSON.stringify(bounded(message))}${data}}`;
  return compose('error', era, '', idLexeme, 'error', error);
}

/** An error that another program wrote, unchanged. */
export function errorOf(idLexeme: string, error: Buffer, era: Era): Message {
  return compose('error', era, '', idLexeme, 'error', error);
}

/** The failure as a JSON-RPC error. Codes of the gateway carry data (outcome, retryable, …), others only `dataJson`. */
export function failureAnswer(idLexeme: string, error: GatewayError, era: Era, dataJson?: string): Message {
  const own = error.rpcCode > 0 ? JSON.stringify(error.data) : null;
  const words = withoutAddresses(error.code, bounded(error.forCallers));
  return errorAnswer(idLexeme, error.rpcCode, words, dataJson ?? own, era);
}

/** The failure as a tool result that a model can read (S2.31), with its data under `_meta["trunkline/error"]`. */
export function toolFailure(idLexeme: string, error: GatewayError, text: string): Message {
  const words = JSON.stringify(withoutAddresses(error.code, bounded(text)));
  const content = `"content":[{"type":"text","text":${words}}],"isError":true`;
  const meta = JSON.stringify({ code: error.code, ...error.data });
  return result(idLexeme, `{${content},"_meta":{"trunkline/error":${meta}}}`, 'stateful');
}

function bounded(words: string): string {
  // A cut can split a surrogate pair, which some parsers of JSON refuse.
  return (words.length <= MAX_MESSAGE_LENGTH ? words : `${words.slice(0, MAX_MESSAGE_LENGTH)}…`).toWellFormed();
}

function compose(
  kind: MessageKind,
  era: Era,
  method: string,
  idLexeme: string,
  bodyKey: 'params' | 'result' | 'error',
  body: string | Buffer | null,
): Message {
  // JSON-RPC 2.0 requires null for an unknown id; 2026-07-28 requires that the member is absent.
  const anonymous = kind === 'error' && idLexeme === '';
  const id = anonymous ? (era === 'stateful' ? ',"id":null' : '') : idLexeme === '' ? '' : `,"id":${idLexeme}`;
  // The characters of the id are bytes, not text, so the two are encoded separately.
  const head = Buffer.from(HEAD + id, 'latin1');
  const name = method === '' ? '' : `,"method":${JSON.stringify(method)}`;
  const idStart = idLexeme === '' ? -1 : head.length - idLexeme.length;
  const idEnd = idLexeme === '' ? -1 : head.length;
  if (body === null) {
    return new Message(Buffer.concat([head, Buffer.from(`${name}}`)]), kind, era, method, idStart, idEnd, -1, -1);
  }
  const middle = Buffer.from(`${name},"${bodyKey}":`);
  const value = typeof body === 'string' ? Buffer.from(body) : body;
  const bodyStart = head.length + middle.length;
  const bytes = Buffer.concat([head, middle, value, CLOSE]);
  return new Message(bytes, kind, era, method, idStart, idEnd, bodyStart, bodyStart + value.length);
}

const CLOSE = Buffer.from('}');

/** The gateway's ping of a stateful server. */
export const PING = request('ping', '0', null, 'stateful');

/** Failures whose texts come from the side of the servers: from starting, connecting, and parsing. */
const SERVER_SIDE_CODES: ReadonlySet<ErrorCode> = new Set([
  'NOT_SENT',
  'UNKNOWN',
  'TIMEOUT',
  'UPSTREAM_PROTOCOL',
  'AUTH_REQUIRED',
  'TOO_LARGE',
  'INTERNAL',
]);
const ADDRESS = /\b[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'`()<>]+/gi;
const PATH = /(?<![\w./:~-])(?:~|\.{1,2})?\/(?:[^\s"'`()<>,;:/]+\/)*([^\s"'`()<>,;:/]+)/g;

/** The message for clients: addresses and folders are only for the operator's status. The last part of a path stays. */
export function withoutAddresses(code: ErrorCode, words: string): string {
  return SERVER_SIDE_CODES.has(code) ? words.replace(ADDRESS, '[address]').replace(PATH, '$1') : words;
}

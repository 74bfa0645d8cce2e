/**
 * Determines the era of a POST, and whether it may be served (proto:H1, H2, H5, H8). The body decides and headers confirm:
 * a request whose `_meta` names a protocol version is stateless (2026-07-28 streamable-http §Server Validation).
 */

import { CATALOGUE, type ErrorCode } from '../model/error-catalogue.ts';
import { isRevision, Message, type Revision, STATEFUL_REVISIONS, STATELESS_REVISIONS } from '../model/message.ts';
import { bodyField } from './body.ts';
import { isIntroductionTooLong } from './client-capabilities.ts';
import { errorAnswer } from './compose.ts';
import { fields, type Range, stringValue, text } from './fields.ts';
import { decodeHeaderValue, headerValue, type WireHeaders } from './headers.ts';
import {
  CLIENT_CAPABILITIES_KEY,
  CLIENT_INFO_KEY,
  isLogLevel,
  LOG_LEVEL_KEY,
  PROTOCOL_VERSION_KEY,
} from './meta-keys.ts';
import { isRemoved, nameMember } from './methods.ts';
import type { ScanFailure } from './scan.ts';

/** A message of a session. The caller checks that the session exists. */
export interface StatefulInbound {
  readonly era: 'stateful';
  readonly message: Message;
  /** Value of `MCP-Protocol-Version`; null without it (some clients never send it). */
  readonly revision: Revision | null;
  readonly sessionId: string | null;
}

/** A self-contained request or notification. A session id beside it is ignored and not echoed. */
export interface StatelessInbound {
  readonly era: 'stateless';
  readonly message: Message;
  readonly revision: Revision;
  /** The client's own JSON texts; `{}` and null on notifications, which have none. */
  readonly capabilities: string;
  readonly info: string | null;
  readonly logLevel: string | null;
}

/** A message that must not be served: the HTTP status, and the JSON-RPC error for the body. */
export interface Rejection {
  readonly reject: number;
  readonly answer: Message;
}

export type Inbound = StatefulInbound | StatelessInbound | Rejection;

const VERSION_HEADER = 'mcp-protocol-version';
const SESSION_HEADER = 'mcp-session-id';
/** Longest part of an unknown version that an error echoes. */
const MAX_ECHO = 128;
const META_KEYS = [PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY];

export function isRejection(inbound: Inbound): inbound is Rejection {
  return 'reject' in inbound;
}

export function classify(headers: WireHeaders, message: Message): Inbound {
  const version = headerValue(headers, VERSION_HEADER);
  const stateless = version !== null && isStateless(version);
  if (message.kind === 'result' || message.kind === 'error') {
    if (stateless) return reject(400, 'INVALID_REQUEST', message, 'answers are not taken in this revision');
    return stateful(headers, version, message);
  }
  const meta = bodyField(message, '_meta');
  const keys = meta === null ? NO_KEYS : fields(message.bytes, meta.start, meta.end, META_KEYS);
  const claim = keys[0];
  if (claim !== null && claim !== undefined) {
    const claimed = stringValue(message.bytes, claim);
    if (claimed === null) return rejectMeta(message, PROTOCOL_VERSION_KEY, 'is not a string');
    if (version !== null && version !== claimed) {
      return mismatch(message, 'MCP-Protocol-Version', `names ${version}, but the body names ${claimed}`);
    }
    // A client may name its session's revision too; the message still belongs to the session.
    const inSession = message.method === 'initialize' || headerValue(headers, SESSION_HEADER) !== null;
    if (isStateful(claimed) && inSession) return stateful(headers, claimed, message);
    if (!isStateless(claimed)) return unsupported(message, claimed, STATELESS_REVISIONS);
    return inStateless(headers, version, message, keys, claimed);
  }
  if (message.method === 'initialize') return stateful(headers, null, message);
  const mustBeStateless = stateless || (message.method === 'server/discover' && !isStateful(version));
  if (!mustBeStateless) return stateful(headers, version, message);
  if (message.kind === 'request') return rejectMeta(message, PROTOCOL_VERSION_KEY, 'is missing');
  return inStateless(headers, version, message, keys, version ?? STATELESS_REVISIONS[0]!);
}

/** Classifies a GET or DELETE, which are operations on a session; 2026-07-28 has none (405). */
export function classifyBodyless(headers: WireHeaders): Omit<StatefulInbound, 'message'> | Rejection {
  const version = headerValue(headers, VERSION_HEADER);
  if (version !== null && isStateless(version)) {
    return reject(405, 'INVALID_REQUEST', null, 'this revision knows POST only');
  }
  if (version !== null && !isStateful(version)) return unsupported(null, version, STATEFUL_REVISIONS);
  return ofSession(headers, version);
}

function ofSession(headers: WireHeaders, version: string | null): Omit<StatefulInbound, 'message'> {
  const revision = version !== null && isRevision(version) ? version : null;
  return { era: 'stateful', revision, sessionId: headerValue(headers, SESSION_HEADER) };
}

export function rejectScan(headers: WireHeaders, failure: ScanFailure): Rejection {
  const version = headerValue(headers, VERSION_HEADER);
  const era = version !== null && isStateless(version) ? 'stateless' : 'stateful';
  const answer = errorAnswer(failure.id, CATALOGUE[failure.code].rpc, scanFailureText(failure), null, era);
  // A stateful client reads the errors of its requests from an answer with HTTP status 200.
  return { reject: failure.code === 'INVALID_PARAMS' && era === 'stateful' ? 200 : 400, answer };
}

export function scanFailureText({ code, reason }: ScanFailure): string {
  if (code === 'INVALID_PARAMS') return `Invalid params: ${reason}`;
  return `${code === 'PARSE_ERROR' ? 'Invalid JSON' : 'Invalid request'}: ${reason}`;
}

const NO_KEYS: readonly (Range | null)[] = [null, null, null, null];

function inStateless(
  headers: WireHeaders,
  version: string | null,
  message: Message,
  keys: readonly (Range | null)[],
  claimed: string,
): Inbound {
  const { bytes } = message;
  const [, capabilities = null, info = null, level = null] = keys;
  const isRequest = message.kind === 'request';
  if (isRequest && version === null) return mismatch(message, 'MCP-Protocol-Version', 'is missing');
  if (capabilities === null ? isRequest : bytes[capabilities.start] !== 0x7b) {
    return rejectMeta(message, CLIENT_CAPABILITIES_KEY, capabilities === null ? 'is missing' : 'is not an object');
  }
  if (info !== null && bytes[info.start] !== 0x7b) return rejectMeta(message, CLIENT_INFO_KEY, 'is not an object');
  if (isIntroductionTooLong(capabilities, info)) {
    return rejectMeta(message, CLIENT_CAPABILITIES_KEY, 'and clientInfo are longer than 64 KiB together');
  }
  const logLevel = stringValue(bytes, level);
  if (level !== null && !isLogLevel(logLevel)) return rejectMeta(message, LOG_LEVEL_KEY, 'is not a log level');
  const fault = standardHeadersFault(headers, message);
  if (fault !== null) return reject(400, 'HEADER_MISMATCH', message, fault);
  if (isRequest && isRemoved(message.method)) {
    return reject(404, 'METHOD_NOT_FOUND', message, `${message.method} is not a method of ${claimed}`);
  }
  return {
    era: 'stateless',
    message: inEra(message, 'stateless'),
    revision: claimed as Revision,
    capabilities: capabilities === null ? '{}' : text(bytes, capabilities),
    info: info === null ? null : text(bytes, info),
    logLevel,
  };
}

/** Requests must repeat their method, and their name if they have one; notifications must not contradict their method. */
function standardHeadersFault(headers: WireHeaders, message: Message): string | null {
  const isRequest = message.kind === 'request';
  const method = headerValue(headers, 'mcp-method');
  if (method === null ? isRequest : method !== message.method) {
    return method === null ? 'the header Mcp-Method is missing' : 'the header Mcp-Method differs from the body';
  }
  const member = nameMember(message.method);
  if (member === null || !isRequest) return null;
  const range = bodyField(message, member);
  const name = stringValue(message.bytes, range);
  const header = headerValue(headers, 'mcp-name');
  // A body without the name is another fault, which the look-up of the name detects.
  if (header === null) return name === null ? null : 'the header Mcp-Name is missing';
  const decoded = decodeHeaderValue(header);
  if (decoded === null) return 'the header Mcp-Name is not validly encoded';
  return decoded === name ? null : `the header Mcp-Name differs from the body's params.${member}`;
}

function stateful(headers: WireHeaders, version: string | null, message: Message): StatefulInbound | Rejection {
  if (version !== null && !isStateful(version)) return unsupported(message, version, STATELESS_REVISIONS);
  return { message: inEra(message, 'stateful'), ...ofSession(headers, version) };
}

function isStateless(version: string): boolean {
  return (STATELESS_REVISIONS as readonly string[]).includes(version);
}

function isStateful(version: string | null): boolean {
  return version !== null && (STATEFUL_REVISIONS as readonly string[]).includes(version);
}

function inEra(message: Message, era: Message['era']): Message {
  if (message.era === era) return message;
  const { bytes, kind, method, idStart, idEnd, bodyStart, bodyEnd } = message;
  return new Message(bytes, kind, era, method, idStart, idEnd, bodyStart, bodyEnd);
}

function mismatch(message: Message, header: string, fault: string): Rejection {
  return reject(400, 'HEADER_MISMATCH', message, `the header ${header} ${fault}`);
}

function rejectMeta(message: Message, key: string, fault: string): Rejection {
  return reject(400, 'INVALID_PARAMS', message, `_meta["${key}"] ${fault}`);
}

function unsupported(message: Message | null, requested: string, supported: readonly string[]): Rejection {
  const data = JSON.stringify({ supported, requested: requested.slice(0, MAX_ECHO).toWellFormed() });
  return reject(400, 'UNSUPPORTED_VERSION', message, 'Unsupported protocol version', data);
}

function reject(
  status: number,
  code: ErrorCode,
  message: Message | null,
  words: string,
  data: string | null = null,
): Rejection {
  const id = message?.kind === 'request' ? message.id : '';
  return { reject: status, answer: errorAnswer(id, CATALOGUE[code].rpc, words, data, 'stateless') };
}

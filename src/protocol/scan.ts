import { isUtf8 } from 'node:buffer';
import { type Era, Message, type MessageKind } from '../model/message.ts';
import { decodeString, elements, keyIs } from './fields.ts';
import { validString, validValue } from './grammar.ts';
import { confusableKeyMessage, KnownNames } from './known-names.ts';
import { isClientRequest } from './methods.ts';
import { confusedParams, lastParams, validParams } from './params-grammar.ts';
import { skipSpace, skipString, skipValue } from './skip.ts';

/** Why bytes are no message. `id` is the request's id lexeme if it could be read and is usable, else empty. */
export interface ScanFailure {
  readonly code: 'PARSE_ERROR' | 'INVALID_REQUEST' | 'INVALID_PARAMS';
  readonly reason: string;
  readonly id: string;
}

/**
 * `strict` (clients): validates the document (RFC 8259, UTF-8, nesting). `relaxed` (servers): finds ends of strings and
 * brackets only. Both results are safe to frame; both reject repeated and confusable decisive members (of a server's answer
 * in the envelope only).
 */
export type ScanMode = 'strict' | 'relaxed';

/** Longest accepted id and method name. Ids are echoed and logged; methods are put into headers. */
const MAX_ID_BYTES = 1024;
const MAX_METHOD_BYTES = 256;

const JSONRPC = 1;
const ID = 2;
const METHOD = 4;
const PARAMS = 8;
const RESULT = 16;
const ERROR = 32;

const ENVELOPE: readonly (readonly [string, number])[] = [
  ['jsonrpc', JSONRPC],
  ['id', ID],
  ['method', METHOD],
  ['params', PARAMS],
  ['result', RESULT],
  ['error', ERROR],
];

const ENVELOPE_NAMES = new KnownNames(ENVELOPE.map(([name]) => name));
const TOOL_CALL = 'tools/call';

export function isScanFailure(scanned: Message | ScanFailure | Buffer[]): scanned is ScanFailure {
  return 'reason' in scanned;
}

/** Reads the envelope of one JSON-RPC message. Its members may be in any order. */
export function scanMessage(bytes: Buffer, era: Era, mode: ScanMode): Message | ScanFailure {
  const strict = mode === 'strict';
  const end = bytes.length;
  if (strict && !isUtf8(bytes)) return malformed('the document is not valid UTF-8');
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== 0x7b) return noObject(bytes, at, strict);

  let seen = 0;
  let repeated = 0;
  let fault = '';
  let versionStart = 0;
  let versionEnd = 0;
  let idStart = -1;
  let idEnd = -1;
  let methodStart = 0;
  let methodEnd = 0;
  let paramsStart = -1;
  let paramsEnd = -1;
  let outcomeStart = -1;
  let outcomeEnd = -1;

  at = skipSpace(bytes, at + 1);
  if (bytes[at] === 0x7d) at++;
  else {
    for (;;) {
      if (bytes[at] !== 0x22) return malformed('a member name was expected');
      const keyEnd = strict ? validString(bytes, at) : skipString(bytes, at, end);
      if (keyEnd < 0) return malformed('a member name is broken');
      const member = envelopeMember(bytes, at, keyEnd);
      if (member === 0) fault ||= confusedMember(bytes, at, keyEnd);
      at = skipSpace(bytes, keyEnd);
      if (bytes[at] !== 0x3a) return malformed('a colon was expected after a member name');
      at = skipSpace(bytes, at + 1);
      let valueEnd: number;
      if (!strict) valueEnd = skipValue(bytes, at, end);
      else if (member === PARAMS && bytes[at] === 0x7b) {
        valueEnd = validParams(bytes, at);
        fault ||= lastParams.fault;
      } else valueEnd = validValue(bytes, at, 1);
      if (valueEnd < 0) return malformed('a value is broken or nested too deep');
      if ((seen & member) !== 0) repeated = member;
      seen |= member;
      switch (member) {
        case JSONRPC:
          versionStart = at;
          versionEnd = valueEnd;
          break;
        case ID:
          idStart = at;
          idEnd = valueEnd;
          break;
        case METHOD:
          methodStart = at;
          methodEnd = valueEnd;
          break;
        case PARAMS:
          paramsStart = at;
          paramsEnd = valueEnd;
          break;
        case RESULT:
        case ERROR:
          outcomeStart = at;
          outcomeEnd = valueEnd;
          break;
      }
      at = skipSpace(bytes, valueEnd);
      const next = bytes[at];
      if (next === 0x2c) at = skipSpace(bytes, at + 1);
      else if (next === 0x7d) {
        at++;
        break;
      } else return malformed('a comma or the end of the object was expected');
    }
  }
  if (skipSpace(bytes, at) !== end) return malformed('something follows the document');

  const idFault = (seen & ID) === 0 ? '' : faultOfId(bytes, idStart, idEnd);
  const id = idStart < 0 || idFault !== '' || repeated === ID ? '' : bytes.toString('latin1', idStart, idEnd);
  if (repeated !== 0) return invalid(`"${nameOf(repeated)}" appears twice`, id);
  if (fault !== '') return invalid(fault, id);
  if (!isVersion(bytes, versionStart, versionEnd)) return invalid('"jsonrpc" is not "2.0"', id);

  if ((seen & METHOD) === 0) {
    const outcome = seen & (RESULT | ERROR);
    if (outcome === 0) return invalid('neither a method, a result nor an error', id);
    if (outcome === (RESULT | ERROR)) return invalid('both a result and an error', id);
    if (outcome === ERROR && bytes[outcomeStart] !== 0x7b) return invalid('"error" is not an object', id);
    // A server that could not read a request answers without an id, or with null (JSON-RPC 2.0 §5).
    const anonymous = !strict && outcome === ERROR && ((seen & ID) === 0 || bytes[idStart] === 0x6e);
    if (!anonymous && (seen & ID) === 0) return invalid('an answer without an id', id);
    if (!anonymous && idFault !== '') return invalid(idFault, id);
    const kind: MessageKind = outcome === RESULT ? 'result' : 'error';
    if (anonymous) idStart = idEnd = -1;
    return new Message(bytes, kind, era, '', idStart, idEnd, outcomeStart, outcomeEnd);
  }

  if (idFault !== '') return invalid(idFault, id);
  if ((seen & (RESULT | ERROR)) !== 0) return invalid('a request cannot carry a result or an error', id);
  if (paramsStart >= 0 && bytes[paramsStart] !== 0x7b) {
    // JSON-RPC allows params by position, but MCP only by name; any other type violates both.
    const code = bytes[paramsStart] === 0x5b ? 'INVALID_PARAMS' : 'INVALID_REQUEST';
    return { code, reason: '"params" is not an object', id };
  }
  if (!strict && paramsStart >= 0) fault = confusedParams(bytes, paramsStart, paramsEnd);
  if (fault !== '') return invalid(fault, id);
  if (bytes[methodStart] !== 0x22) return invalid('"method" is not a string', id);
  if (methodEnd - methodStart - 2 > MAX_METHOD_BYTES) return invalid('"method" is too long', id);
  const method = decodeString(bytes, methodStart, methodEnd);
  if (method === null || method === '') return invalid('"method" names nothing', id);
  if (strict && idStart < 0 && isClientRequest(method)) return invalid(`"id" is missing: ${method} is a request`, id);
  if (strict && method === TOOL_CALL && idStart >= 0 && paramsStart >= 0) {
    const wrong = faultOfCall();
    if (wrong !== '') return { code: 'INVALID_PARAMS', reason: wrong, id };
  }
  const kind: MessageKind = idStart < 0 ? 'notification' : 'request';
  return new Message(bytes, kind, era, method, idStart, idEnd, paramsStart, paramsEnd);
}

/** Whether the document is an array: a JSON-RPC batch, which only revision 2025-03-26 allows. */
export function isBatch(bytes: Buffer): boolean {
  return bytes[skipSpace(bytes, 0)] === 0x5b;
}

/** The elements of a JSON-RPC batch, as views. Validates the document, but does not check what the elements are. */
export function scanBatch(bytes: Buffer, maxElements = 100): Buffer[] | ScanFailure {
  if (!isUtf8(bytes)) return malformed('the document is not valid UTF-8');
  const start = skipSpace(bytes, 0);
  if (bytes[start] !== 0x5b) return invalid('not a batch', '');
  const end = validValue(bytes, start, 0);
  if (end < 0 || skipSpace(bytes, end) !== bytes.length) return malformed('the batch is not well-formed JSON');
  const parts: Buffer[] = [];
  for (const { start: from, end: to } of elements(bytes, start, end)) {
    if (parts.length === maxElements) return invalid(`a batch of more than ${maxElements} messages`, '');
    parts.push(bytes.subarray(from, to));
  }
  return parts.length === 0 ? invalid('an empty batch', '') : parts;
}

function envelopeMember(bytes: Buffer, start: number, end: number): number {
  switch (end - start - 2) {
    case 2:
      return bytes[start + 1] === 0x69 && bytes[start + 2] === 0x64 ? ID : 0;
    case 0:
    case 1:
    case 3:
    case 4:
      return 0;
  }
  for (const [name, member] of ENVELOPE) if (keyIs(bytes, start, end, name)) return member;
  return 0;
}

function confusedMember(bytes: Buffer, start: number, end: number): string {
  const found = ENVELOPE_NAMES.find(bytes, start, end);
  return found < -1 ? confusableKeyMessage(bytes, start, end, ENVELOPE_NAMES.nameOf(found)) : '';
}

/** Why the params that were validated last cannot be a call of any MCP server (server/tools §Calling Tools). */
function faultOfCall(): string {
  if (lastParams.name !== 0x22 && lastParams.name !== 0) return 'params.name must be a string';
  // Some clients write null for no arguments.
  const takesArguments = lastParams.arguments === 0x7b || lastParams.arguments === 0x6e || lastParams.arguments === 0;
  return takesArguments ? '' : 'params.arguments must be an object';
}

function nameOf(member: number): string {
  return ENVELOPE.find(([, candidate]) => candidate === member)![0];
}

function isVersion(bytes: Buffer, start: number, end: number): boolean {
  if (end - start === 5) {
    return bytes[start] === 0x22 && bytes[start + 1] === 0x32 && bytes[start + 2] === 0x2e && bytes[start + 3] === 0x30;
  }
  return end > start && decodeString(bytes, start, end) === '2.0';
}

/** Empty for an id that can be echoed: a string, or a number whose lexeme is an integer of any size. */
function faultOfId(bytes: Buffer, start: number, end: number): string {
  if (end - start > MAX_ID_BYTES) return '"id" is too long';
  if (bytes[start] === 0x22) return '';
  let at = start;
  if (bytes[at] === 0x2d) at++;
  const digits = at;
  while (at < end && isDigit(bytes[at])) at++;
  if (at === digits || (bytes[digits] === 0x30 && at > digits + 1)) return '"id" is neither a string nor an integer';
  if (at < end && bytes[at] === 0x2e && at + 1 < end) {
    at++;
    while (at < end && bytes[at] === 0x30) at++;
  }
  return at === end ? '' : '"id" is neither a string nor an integer';
}

function isDigit(c: number | undefined): boolean {
  return c !== undefined && c >= 0x30 && c <= 0x39;
}

function noObject(bytes: Buffer, at: number, strict: boolean): ScanFailure {
  if (!strict) return at < bytes.length ? invalid('not an object', '') : malformed('the document is empty');
  if (at >= bytes.length) return malformed('the document is empty');
  const end = validValue(bytes, at, 0);
  if (end < 0 || skipSpace(bytes, end) !== bytes.length) return malformed('not well-formed JSON');
  return invalid(bytes[at] === 0x5b ? 'batches are not taken here' : 'not an object', '');
}

function malformed(reason: string): ScanFailure {
  return { code: 'PARSE_ERROR', reason, id: '' };
}

function invalid(reason: string, id: string): ScanFailure {
  return { code: 'INVALID_REQUEST', reason, id };
}

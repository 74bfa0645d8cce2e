/**
 * Multi-round-trip requests (2026-07-28 basic/patterns/mrtr): a result lists what the server needs, and the client repeats
 * its request with answers and state.
 */
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Message } from '../../model/message.ts';
import { missingCapability, missingCapabilityError } from '../client-capabilities.ts';
import { result } from '../compose.ts';
import { duplicateKey, entries, field, fields, type Range, stringValue } from '../fields.ts';
import { editMembers, editObject, spliceMessage } from '../splice.ts';

/** Requests with a result that may ask for input (§Supported Requests). */
const INPUT_METHODS: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);
/** Requests that a server may make. */
const ASKABLE: ReadonlySet<string> = new Set(['sampling/createMessage', 'elicitation/create', 'roots/list']);
const MARK = Buffer.from('input_required');
const ESCAPE = Buffer.from('\\u');
const RESPONSES = Buffer.from('inputResponses');
const STATE = Buffer.from('requestState');
/** Most questions of one round. */
export const MAX_INPUT_REQUESTS = 64;

/** One question of a round. Ranges refer to the bytes of the result. */
export interface InputRequest {
  /** The key of its answer, as written, quotes included. */
  readonly key: Buffer;
  readonly method: string;
  readonly params: Range | null;
}

export interface InputRequired {
  readonly requests: readonly InputRequest[];
  /** The server's `requestState` as written, quotes included; null without one. */
  readonly state: Buffer | null;
}

export function takesInput(method: string): boolean {
  return INPUT_METHODS.has(method);
}

export function isInputRequest(method: string): boolean {
  return ASKABLE.has(method);
}

/** Whether the result may ask for input: a native search, which excludes most other results at almost no cost. */
export function mayRequireInput({ kind, era, bytes }: Message): boolean {
  // An escape could hide the text from the search, and every result that asks must be found.
  return kind === 'result' && era === 'stateless' && (bytes.includes(MARK) || bytes.includes(ESCAPE));
}

/** What the result asks for; an error text if it violates the specification. */
export function readInputRequired({ bytes, bodyStart, bodyEnd }: Message): InputRequired | string {
  const [asked, state] = fields(bytes, bodyStart, bodyEnd, ['inputRequests', 'requestState']) as [
    Range | null,
    Range | null,
  ];
  if (state !== null && stringValue(bytes, state) === null) return 'requestState is not a string';
  const lexeme = state === null ? null : bytes.subarray(state.start, state.end);
  if (asked === null) return lexeme === null ? 'it neither asks nor keeps a state' : { requests: [], state: lexeme };
  if (bytes[asked.start] !== 0x7b) return 'inputRequests is not an object';
  const requests: InputRequest[] = [];
  for (const entry of entries(bytes, asked.start, asked.end)) {
    const key = bytes.subarray(entry.keyStart, entry.keyEnd);
    const method = stringValue(bytes, field(bytes, entry.valueStart, entry.valueEnd, 'method'));
    if (method === null || !ASKABLE.has(method)) return `input request ${key} asks for nothing that there is`;
    const params = field(bytes, entry.valueStart, entry.valueEnd, 'params');
    if (params !== null && bytes[params.start] !== 0x7b) return `params of input request ${key} is not an object`;
    requests.push({ key, method, params });
    if (requests.length > MAX_INPUT_REQUESTS) return `it asks more than ${MAX_INPUT_REQUESTS} questions at once`;
  }
  if (duplicateKey(bytes, asked.start, asked.end) !== null) return 'two input requests have one key';
  if (requests.length === 0 && lexeme === null) return 'it neither asks nor keeps a state';
  return { requests, state: lexeme };
}

/**
 * The error for what a stateless server asks of a client that did not declare all of it (proto:S4); null if it did. `requests`: those
 * of the message that matter, by default all.
 */
export function refusedInput(
  server: string,
  { capabilities }: Pick<ClientProfile, 'capabilities'>,
  message: Message,
  requests: readonly InputRequest[] = requestsIn(message),
): Message | null {
  for (const { method, params } of requests) {
    const missing = missingCapability(capabilities, method, message.bytes, params);
    if (missing !== null) return missingCapabilityError(server, method, missing);
  }
  return null;
}

/** The status of a task without its input requests, if the client did not declare what one of them needs (proto:S4). */
export function withDeclaredInput(message: Message, client: Pick<ClientProfile, 'capabilities'>): Message {
  if (refusedInput('', client, message) === null) return message;
  const { bytes, bodyStart: start, bodyEnd: end } = message;
  return spliceMessage(message, editMembers(bytes, { start, end }, [['inputRequests', null]]));
}

function requestsIn(message: Message): readonly InputRequest[] {
  const required = readInputRequired(message);
  return typeof required === 'string' ? [] : required.requests;
}

/** The request with a round's answers (an object, in JSON) and the server's state, as written; null for none. */
export function withInput(request: Message, responses: Buffer | null, state: Buffer | null): Message {
  const { bytes, bodyStart: start, bodyEnd: end } = request;
  const changes = [['inputResponses', responses] as const, ['requestState', state] as const];
  return spliceMessage(request, editMembers(bytes, { start, end }, changes));
}

/** The ranges of a round's answers and state in a client's request, null for those that are absent or null. */
export function inputOf(request: Message): { readonly responses: Range | null; readonly state: Range | null } {
  const { bytes, bodyStart, bodyEnd } = request;
  // An escape could hide the names from this search, but not from a server's parser.
  if (bodyStart < 0 || !(bytes.includes(STATE) || bytes.includes(RESPONSES) || bytes.includes(BACKSLASH))) return NONE;
  const found = fields(bytes, bodyStart, bodyEnd, ['inputResponses', 'requestState']);
  const [responses = null, state = null] = found.map((value) =>
    value && bytes[value.start] === LETTER_N ? null : value,
  );
  return responses === null && state === null ? NONE : { responses, state };
}

/** An entry of `inputRequests`. The Go SDK (1.8.0) requires `params`; 2026-07-28 has no `elicitationId`. */
export function inputRequest(method: string, bytes: Buffer, params: Range | null): Buffer {
  let own: Buffer = EMPTY_OBJECT;
  if (params !== null && bytes[params.start] === 0x7b) {
    own = editObject(bytes, params, method === 'elicitation/create' ? [['elicitationId', null]] : []);
  }
  return Buffer.concat([Buffer.from(`{"method":${JSON.stringify(method)},"params":`), own, Buffer.from('}')]);
}

/** The result that asks for input. `requests` is the object of questions in JSON, null for none. */
export function inputRequired(requests: Buffer | null, state: string): Message {
  const members: Buffer[] = [Buffer.from('{"resultType":"input_required"')];
  if (requests !== null) members.push(Buffer.from(',"inputRequests":'), requests);
  members.push(Buffer.from(`,"requestState":${JSON.stringify(state)}}`));
  return result('0', Buffer.concat(members), 'stateless');
}

const EMPTY_OBJECT = Buffer.from('{}');
const BACKSLASH = 0x5c;
/** With which of all values only null begins. */
const LETTER_N = 0x6e;
const NONE = { responses: null, state: null };

import { Message, type MessageKind } from '../../model/message.ts';
import { malformed, SHORT_FORM } from '../frames/frame.ts';

/** Frames carry the index of a method: append only. */
const METHODS = ['tools/call', 'resources/read', 'prompts/get', 'completion/complete'] as const;
const ERAS = ['stateful', 'stateless'] as const;
const ANSWERS: readonly MessageKind[] = ['result', 'error'];
const PLACES = 16;

/** Bytes: form 1 · method 1 · era 1 · length of exchange id 1 · offsets 16 · waited 4 · context number 4 · context length 4 */
const REQUEST_HEAD = 4 + PLACES + 12;
/** Bytes: form 1 · kind of answer 1 · era 1 · own 1 · offsets 16 · length of the key 1 */
const ANSWER_HEAD = 4 + PLACES + 1;
/** Kind of answer: the serving node lacks the context and did not run the call. */
const RESEND_CONTEXT = 0xff;
const NO_KEY = 0xff;

interface ShortRequest {
  readonly message: Message;
  readonly exchange: string;
  readonly waitedMs: number;
  readonly number: number;
  /** Empty if the caller sent it before. */
  readonly context: string;
}

interface ShortAnswer {
  readonly message: Message;
  readonly key: string | null;
  readonly own: boolean;
}

/**
 * Whether a call can use the short form: a binary header instead of JSON, and the call context sent only once. Its first byte is
 * `SHORT_FORM`; the JSON form begins with 0. Nodes announce in `forms` that they read it. A request in short form may get an
 * answer in either form.
 */
export function hasShortForm(request: Message, exchange: string): boolean {
  return request.kind === 'request' && exchange.length <= 0xff && numberOf(request.method) >= 0;
}

/** Returns null if the request has no short form. `context`: null if the other node has it. */
export function packRequest(
  request: Message,
  exchange: string,
  waitedMs: number,
  number: number,
  context: Buffer | null,
): Buffer[] | null {
  if (!hasShortForm(request, exchange)) return null;
  const head = Buffer.allocUnsafe(REQUEST_HEAD + exchange.length);
  head[0] = SHORT_FORM;
  head[1] = numberOf(request.method);
  head[2] = ERAS.indexOf(request.era);
  head[3] = exchange.length;
  writePlaces(head, request);
  head.writeUInt32BE(Math.min(0xffff_ffff, Math.max(0, Math.round(waitedMs))), 4 + PLACES);
  head.writeUInt32BE(number, 8 + PLACES);
  head.writeUInt32BE(context?.length ?? 0, 12 + PLACES);
  head.write(exchange, REQUEST_HEAD, 'latin1');
  return context === null ? [head, request.bytes] : [head, context, request.bytes];
}

/** Returns null for the JSON form. Throws GatewayError for malformed frames. */
export function unpackRequest(bytes: Buffer): ShortRequest | null {
  if (bytes[0] !== SHORT_FORM) return null;
  const method = METHODS[bytes[1]!];
  const era = ERAS[bytes[2]!];
  if (bytes.length < REQUEST_HEAD || method === undefined || era === undefined) throw malformed('cut short');
  const contextAt = REQUEST_HEAD + bytes[3]!;
  const messageAt = contextAt + bytes.readUInt32BE(12 + PLACES);
  if (messageAt > bytes.length) throw malformed('cut short');
  return {
    message: messageAtPlaces(bytes, messageAt, 'request', era, method),
    exchange: bytes.toString('latin1', REQUEST_HEAD, contextAt),
    waitedMs: bytes.readUInt32BE(4 + PLACES),
    number: bytes.readUInt32BE(8 + PLACES),
    context: contextAt === messageAt ? '' : bytes.toString('utf8', contextAt, messageAt),
  };
}

export function packAnswer(message: Message, key: string | null, own: boolean): Buffer[] | null {
  const kind = ANSWERS.indexOf(message.kind);
  const length = key === null ? 0 : Buffer.byteLength(key);
  if (kind < 0 || length >= NO_KEY) return null;
  const head = Buffer.allocUnsafe(ANSWER_HEAD + length);
  head[0] = SHORT_FORM;
  head[1] = kind;
  head[2] = ERAS.indexOf(message.era);
  head[3] = own ? 1 : 0;
  writePlaces(head, message);
  head[4 + PLACES] = key === null ? NO_KEY : length;
  if (key !== null) head.write(key, ANSWER_HEAD);
  return [head, message.bytes];
}

export function packResendContext(): Buffer {
  const head = Buffer.alloc(ANSWER_HEAD);
  head[0] = SHORT_FORM;
  head[1] = RESEND_CONTEXT;
  return head;
}

/** Returns null for the JSON form. */
export function unpackAnswer(bytes: Buffer): ShortAnswer | 'resend' | null {
  if (bytes[0] !== SHORT_FORM) return null;
  if (bytes.length < ANSWER_HEAD) throw malformed('cut short');
  if (bytes[1] === RESEND_CONTEXT) return 'resend';
  const kind = ANSWERS[bytes[1]!];
  const era = ERAS[bytes[2]!];
  const length = bytes[4 + PLACES]!;
  const messageAt = ANSWER_HEAD + (length === NO_KEY ? 0 : length);
  if (kind === undefined || era === undefined || messageAt > bytes.length) throw malformed('cut short');
  return {
    message: messageAtPlaces(bytes, messageAt, kind, era, ''),
    key: length === NO_KEY ? null : bytes.toString('utf8', ANSWER_HEAD, messageAt),
    own: bytes[3] === 1,
  };
}

function numberOf(method: string): number {
  return (METHODS as readonly string[]).indexOf(method);
}

function writePlaces(head: Buffer, { idStart, idEnd, bodyStart, bodyEnd }: Message): void {
  head.writeInt32BE(idStart, 4);
  head.writeInt32BE(idEnd, 8);
  head.writeInt32BE(bodyStart, 12);
  head.writeInt32BE(bodyEnd, 16);
}

function messageAtPlaces(bytes: Buffer, at: number, kind: MessageKind, era: Message['era'], method: string): Message {
  const last = bytes.length - at;
  return new Message(
    bytes.subarray(at),
    kind,
    era,
    method,
    placeAt(bytes, 4, last),
    placeAt(bytes, 8, last),
    placeAt(bytes, 12, last),
    placeAt(bytes, 16, last),
  );
}

function placeAt(bytes: Buffer, at: number, last: number): number {
  const place = bytes.readInt32BE(at);
  if (place < -1 || place > last) throw malformed('with ranges beyond its bytes');
  return place;
}

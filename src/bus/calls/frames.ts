import type { Payload } from '../bus.ts';
import { SIGNATURE_BYTES } from '../trust/signer.ts';

/** What a frame of a call is. The numbers are the wire between nodes: never given another meaning. */
export const FRAME = { request: 1, accept: 2, ack: 3, data: 4, cancel: 5, gone: 6, hint: 7, unserved: 8 } as const;

/** What a data frame carries a part of. */
export const PART = { request: 1, emit: 2, ask: 3, answer: 4, askFailure: 5, result: 6, failure: 7 } as const;
export type Part = (typeof PART)[keyof typeof PART];

/** The version of these frames. A peer that cannot read a request in a bundle says so (`unserved`). */
const FRAMES_VERSION = 1;

/**
 * Frames for a peer that reads bundles leave several in a message, one entry each: how many bytes follow, which end of a
 * call the frame is for, the call, the frame. Every frame has room for that, and for the signature, at its front; behind
 * a request is the subject that it calls, and the length of that.
 */
export const ENTRY_AT = SIGNATURE_BYTES;
export const ENTRY_HEAD = 4 + 1 + 8;
/** Where the frame itself begins. */
export const FRAME_AT = ENTRY_AT + ENTRY_HEAD;

/** For which end of a call a frame is; `new`: the serving one, and it begins it. */
export const ENDS = ['new', 'caller', 'serving'] as const;
export type End = (typeof ENDS)[number];

const REQUEST_HEAD = 1 + 1 + 8 + 4 + 4 + 1;
/** Bytes of the subject that is called. */
const MAX_SUBJECT = 255;
const DATA_HEAD = 1 + 4 + 1 + 4 + 1;
const ACK_HEAD = 1 + 4 + 1;

/** What every frame costs beside its payload. */
export const FRAME_OVERHEAD = FRAME_AT + REQUEST_HEAD + MAX_SUBJECT + 1;

export interface RequestFrame extends CallId {
  readonly deadlineMs: number;
  /** Bytes of the whole payload, of which the first are here. */
  readonly total: number;
  /** The call is handed over by an `ack` after `accept`, not by this frame. */
  readonly offered: boolean;
  readonly first: Buffer;
}

export interface DataFrame {
  readonly seq: number;
  readonly part: Part;
  /** Which question it belongs to; 0 for what belongs to none. */
  readonly ref: number;
  /** The next data frame goes on with the same payload. */
  readonly more: boolean;
  readonly bytes: Buffer;
}

/** `seq`: every data frame before this one has come. `resync`: what follows is to be sent again. */
export interface AckFrame {
  readonly seq: number;
  readonly resync: boolean;
}

/** What a request says of its call beside the id. */
export type RequestHead = Omit<RequestFrame, 'first' | keyof CallId>;

/** How long a request with so much of its payload is. Throws RangeError for a subject that is too long. */
export function requestLength(subject: string, bytes: number): number {
  if (subject.length > MAX_SUBJECT) throw new RangeError(`a subject of ${subject.length} characters`);
  return REQUEST_HEAD + bytes + subject.length + 1;
}

/** Writes it where there is room for it. */
export function writeRequest(
  to: Buffer,
  at: number,
  subject: string,
  { family, number }: CallId,
  { deadlineMs, total, offered }: RequestHead,
  pieces: Pieces,
  bytes: number,
): void {
  to[at] = FRAME.request;
  to[at + 1] = FRAMES_VERSION;
  to.writeUInt32BE(family, at + 2);
  to.writeUInt32BE(number, at + 6);
  to.writeUInt32BE(deadlineMs, at + 10);
  to.writeUInt32BE(total, at + 14);
  to[at + 18] = offered ? 1 : 0;
  const subjectAt = at + REQUEST_HEAD + bytes;
  pieces.copy(to, at + REQUEST_HEAD, bytes);
  to.write(subject, subjectAt, 'latin1');
  to[subjectAt + subject.length] = subject.length;
}

/** A frame among other bytes, from here to there. */
export interface Framed {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

/** A frame that came alone. */
export function framed(bytes: Buffer): Framed {
  return { bytes, from: 0, to: bytes.length };
}

/** Where it ends may be before its subject. */
export function readRequest({ bytes, from }: Framed, to: number): RequestFrame | null {
  if (to - from < REQUEST_HEAD || bytes[from] !== FRAME.request || bytes[from + 1] !== FRAMES_VERSION) return null;
  return {
    family: bytes.readUInt32BE(from + 2),
    number: bytes.readUInt32BE(from + 6),
    deadlineMs: bytes.readUInt32BE(from + 10),
    total: bytes.readUInt32BE(from + 14),
    offered: bytes[from + 18] === 1,
    first: bytes.subarray(from + REQUEST_HEAD, to),
  };
}

/** Where the subject behind a request begins, and so where the request ends. */
export function subjectAt({ bytes, from, to }: Framed): number {
  return Math.max(from, to - 1 - (bytes[to - 1] ?? 0));
}

/** The subject that a request of a bundle calls. */
export function subjectOf(request: Framed): string {
  return request.bytes.toString('latin1', subjectAt(request), request.to - 1);
}

/** The text of a frame that has only a kind and a text. */
export function wordsOf({ bytes, from, to }: Framed): string {
  return bytes.toString('utf8', from + 1, to);
}

/** The message of a frame that goes without company: to a subject, or to a peer that reads no bundles. */
export function aloneMessage(frame: Buffer): Buffer {
  const end = frame[FRAME_AT] === FRAME.request ? subjectAt(framed(frame)) : frame.length;
  return frame.subarray(FRAME_AT - SIGNATURE_BYTES, end);
}

export function dataFrame(seq: number, part: Part, ref: number, pieces: Pieces, bytes: number): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_AT + dataLength(bytes));
  writeData(frame, FRAME_AT, seq, part, ref, pieces, bytes);
  return frame;
}

/** How long a data frame with so many bytes is. */
export function dataLength(bytes: number): number {
  return DATA_HEAD + bytes;
}

/** Writes it where there is room for it. */
export function writeData(
  to: Buffer,
  at: number,
  seq: number,
  part: Part,
  ref: number,
  pieces: Pieces,
  bytes: number,
): void {
  to[at] = FRAME.data;
  to.writeUInt32BE(seq, at + 1);
  to[at + 5] = part;
  to.writeUInt32BE(ref, at + 6);
  pieces.copy(to, at + DATA_HEAD, bytes);
  to[at + 10] = pieces.left > 0 ? 1 : 0;
}

export function readData({ bytes, from, to }: Framed): DataFrame | null {
  if (to - from < DATA_HEAD) return null;
  const part = bytes[from + 5]!;
  if (part < PART.request || part > PART.failure) return null;
  return {
    seq: bytes.readUInt32BE(from + 1),
    part: part as Part,
    ref: bytes.readUInt32BE(from + 6),
    more: bytes[from + 10] === 1,
    bytes: bytes.subarray(from + DATA_HEAD, to),
  };
}

export function ackFrame(seq: number, resync: boolean): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_AT + ACK_HEAD);
  frame[FRAME_AT] = FRAME.ack;
  frame.writeUInt32BE(seq, FRAME_AT + 1);
  frame[FRAME_AT + 5] = resync ? 1 : 0;
  return frame;
}

export function readAck({ bytes, from, to }: Framed): AckFrame | null {
  return to - from < ACK_HEAD ? null : { seq: bytes.readUInt32BE(from + 1), resync: bytes[from + 5] === 1 };
}

/** Writes the head of an entry, before a frame of so many bytes. */
export function writeEntry(to: Buffer, at: number, end: End, { family, number }: CallId, length: number): void {
  to.writeUInt32BE(ENTRY_HEAD - 4 + length, at);
  to[at + 4] = ENDS.indexOf(end);
  to.writeUInt32BE(family, at + 5);
  to.writeUInt32BE(number, at + 9);
}

/** `accept`, `cancel`, `gone`, `unserved`: a kind and its bytes. */
export function plainFrame(kind: number, bytes: Buffer = EMPTY): Buffer {
  return kindAndBytes(FRAME_AT, kind, bytes);
}

/** A publication, which is a message of its own and no entry in one. */
export function hintMessage(payload: Payload): Buffer {
  return kindAndBytes(ENTRY_AT, FRAME.hint, payload);
}

function kindAndBytes(at: number, kind: number, bytes: Payload): Buffer {
  const pieces = new Pieces(bytes);
  const frame = Buffer.allocUnsafe(at + 1 + pieces.left);
  frame[at] = kind;
  pieces.copy(frame, at + 1, pieces.left);
  return frame;
}

const EMPTY = Buffer.alloc(0);

/** Which call. Numbers, because every frame has one: the family is random and its caller's own, the number counts its calls. */
export interface CallId {
  readonly family: number;
  readonly number: number;
}

/** As in subjects: sixteen hexadecimal digits. */
export function callText({ family, number }: CallId): string {
  return hex(family) + hex(number);
}

/** Null where the text is not one of those. */
export function callOf(text: string): CallId | null {
  if (!CALL.test(text)) return null;
  return { family: Number.parseInt(text.slice(0, 8), 16), number: Number.parseInt(text.slice(8), 16) };
}

const CALL = /^[0-9a-f]{16}$/;

function hex(number: number): string {
  return number.toString(16).padStart(8, '0');
}

/** A payload of one or several buffers, copied out from its beginning to its end. */
export class Pieces {
  readonly #buffers: readonly Buffer[];
  #at = 0;
  #offset = 0;
  left = 0;

  constructor(payload: Payload) {
    this.#buffers = Buffer.isBuffer(payload) ? [payload] : (payload as readonly Buffer[]);
    for (const buffer of this.#buffers) this.left += buffer.length;
  }

  /** The next bytes; there must be so many left. */
  copy(target: Buffer, at: number, bytes: number): void {
    this.left -= bytes;
    while (bytes > 0) {
      const source = this.#buffers[this.#at]!;
      const count = Math.min(bytes, source.length - this.#offset);
      source.copy(target, at, this.#offset, this.#offset + count);
      at += count;
      bytes -= count;
      this.#offset += count;
      if (this.#offset === source.length) {
        this.#at++;
        this.#offset = 0;
      }
    }
  }
}

/**
 * The entries of a bundle, one after the other: what it says is of the one that `next` has come to, so that nothing has to be
 * made for each. A frame is where it came, among the others.
 */
export class Entries implements CallId, Framed {
  readonly bytes: Buffer;
  end: End = 'new';
  family = 0;
  number = 0;
  from = 0;
  to = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** False behind the last one, and where the message is cut otherwise than it says. */
  next(): boolean {
    const { bytes, to: at } = this;
    if (at + ENTRY_HEAD >= bytes.length) return false;
    const next = at + 4 + bytes.readUInt32BE(at);
    const end = ENDS[bytes[at + 4]!];
    if (next > bytes.length || next <= at + ENTRY_HEAD || end === undefined) return false;
    this.end = end;
    this.family = bytes.readUInt32BE(at + 5);
    this.number = bytes.readUInt32BE(at + 9);
    this.from = at + ENTRY_HEAD;
    this.to = next;
    return true;
  }

  /** Behind the last one: whether the message was cut as it says. */
  get whole(): boolean {
    return this.to === this.bytes.length;
  }
}

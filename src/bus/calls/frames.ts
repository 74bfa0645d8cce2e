import type { Payload } from '../bus.ts';
import { SIGNATURE_BYTES } from '../trust/signer.ts';

/** Values on the wire: their meaning must never change. */
export const FRAME = { request: 1, accept: 2, ack: 3, data: 4, cancel: 5, gone: 6, hint: 7, unserved: 8 } as const;

export const PART = { request: 1, emit: 2, ask: 3, answer: 4, askFailure: 5, result: 6, failure: 7 } as const;
export type Part = (typeof PART)[keyof typeof PART];

/** A peer that cannot read a request in a bundle answers `unserved`. */
const FRAMES_VERSION = 1;

/**
 * A bundle has one entry per frame: length, end of the call, call id, frame. Every frame reserves space for the entry head and
 * the signature at its front. A request is followed by its subject and the subject's length.
 */
export const ENTRY_AT = SIGNATURE_BYTES;
const ENTRY_HEAD = 4 + 1 + 8;
export const FRAME_AT = ENTRY_AT + ENTRY_HEAD;

/** The end of the call that a frame addresses; `new` begins the serving end. */
export const ENDS = ['new', 'caller', 'serving'] as const;
export type End = (typeof ENDS)[number];

const REQUEST_HEAD = 1 + 1 + 8 + 4 + 4 + 1;
const MAX_SUBJECT = 255;
const DATA_HEAD = 1 + 4 + 1 + 4 + 1;
const ACK_HEAD = 1 + 4 + 1;

export const FRAME_OVERHEAD = FRAME_AT + REQUEST_HEAD + MAX_SUBJECT + 1;

export interface RequestFrame extends CallId {
  readonly deadlineMs: number;
  /** Bytes of the whole payload, which begins with `first`. */
  readonly total: number;
  readonly first: Buffer;
}

export interface DataFrame {
  readonly seq: number;
  readonly part: Part;
  /** Number of the ask that the frame belongs to; 0 if none. */
  readonly ref: number;
  readonly more: boolean;
  readonly bytes: Buffer;
}

/** `seq`: all data frames before it have arrived. `resync`: the peer must send the others again. */
export interface AckFrame {
  readonly seq: number;
  readonly resync: boolean;
}

/** Consumes `bytes` bytes of `pieces`. Throws RangeError if the subject is too long. */
export function requestFrame(
  subject: string,
  { family, number }: CallId,
  { deadlineMs, total }: Pick<RequestFrame, 'deadlineMs' | 'total'>,
  pieces: Pieces,
  bytes: number,
): Buffer {
  if (subject.length > MAX_SUBJECT) throw new RangeError(`a subject of ${subject.length} characters`);
  const frame = Buffer.allocUnsafe(FRAME_AT + REQUEST_HEAD + bytes + subject.length + 1);
  frame[FRAME_AT] = FRAME.request;
  frame[FRAME_AT + 1] = FRAMES_VERSION;
  frame.writeUInt32BE(family, FRAME_AT + 2);
  frame.writeUInt32BE(number, FRAME_AT + 6);
  frame.writeUInt32BE(deadlineMs, FRAME_AT + 10);
  frame.writeUInt32BE(total, FRAME_AT + 14);
  // Reserved; formerly whether the request was offered to several peers.
  frame[FRAME_AT + 18] = 0;
  pieces.copy(frame, FRAME_AT + REQUEST_HEAD, bytes);
  frame.write(subject, FRAME_AT + REQUEST_HEAD + bytes, 'latin1');
  frame[frame.length - 1] = subject.length;
  return frame;
}

export interface Framed {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

/** `to`: the end of the request, which its subject may follow. */
export function readRequest({ bytes, from }: Framed, to: number): RequestFrame | null {
  if (to - from < REQUEST_HEAD || bytes[from] !== FRAME.request || bytes[from + 1] !== FRAMES_VERSION) return null;
  return {
    family: bytes.readUInt32BE(from + 2),
    number: bytes.readUInt32BE(from + 6),
    deadlineMs: bytes.readUInt32BE(from + 10),
    total: bytes.readUInt32BE(from + 14),
    first: bytes.subarray(from + REQUEST_HEAD, to),
  };
}

/** Returns the offset of the subject, where the request ends. */
export function subjectAt({ bytes, from, to }: Framed): number {
  return Math.max(from, to - 1 - (bytes[to - 1] ?? 0));
}

export function subjectOf(request: Framed): string {
  return request.bytes.toString('latin1', subjectAt(request), request.to - 1);
}

export function frameText({ bytes, from, to }: Framed): string {
  return bytes.toString('utf8', from + 1, to);
}

export function dataFrame(seq: number, part: Part, ref: number, pieces: Pieces, bytes: number): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_AT + DATA_HEAD + bytes);
  frame[FRAME_AT] = FRAME.data;
  frame.writeUInt32BE(seq, FRAME_AT + 1);
  frame[FRAME_AT + 5] = part;
  frame.writeUInt32BE(ref, FRAME_AT + 6);
  pieces.copy(frame, FRAME_AT + DATA_HEAD, bytes);
  frame[FRAME_AT + 10] = pieces.left > 0 ? 1 : 0;
  return frame;
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

/** Writes the entry head in front of the frame. */
export function writeEntry(frame: Buffer, end: End, { family, number }: CallId): void {
  frame.writeUInt32BE(frame.length - ENTRY_AT - 4, ENTRY_AT);
  frame[ENTRY_AT + 4] = ENDS.indexOf(end);
  frame.writeUInt32BE(family, ENTRY_AT + 5);
  frame.writeUInt32BE(number, ENTRY_AT + 9);
}

/** For `accept`, `cancel`, `gone` and `unserved`, with a text. */
export function plainFrame(kind: number, text = ''): Buffer {
  return kindAndBytes(FRAME_AT, kind, Buffer.from(text));
}

/** A published hint, which is never bundled. */
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

/** Two numbers, because every frame has an id: a random family of the caller, and its call counter. */
export interface CallId {
  readonly family: number;
  readonly number: number;
}

/**
 * Packs a call id into one number, the key of a table. 20 random bits of the family distinguish the calls open at one time. The
 * multiplication scatters the counter, because `IntegerMap` is slow where consecutive numbers of several families collide.
 */
export function keyOf({ family, number }: CallId): number {
  return (family % 2 ** 20) * 2 ** 32 + (Math.imul(number, 0x9e37_79b1) >>> 0) + 1;
}

export class Pieces {
  readonly #buffers: readonly Buffer[];
  #at = 0;
  #offset = 0;
  left = 0;

  constructor(payload: Payload) {
    this.#buffers = Buffer.isBuffer(payload) ? [payload] : (payload as readonly Buffer[]);
    for (const buffer of this.#buffers) this.left += buffer.length;
  }

  /** At least `bytes` bytes must be left. */
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

/** Iterates over the entries of a bundle. Its fields describe the current entry, to avoid an object for each. */
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

  /** Returns false after the last entry, or if the lengths are wrong. */
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

  /** After `next` returned false: whether the lengths were right. */
  get isComplete(): boolean {
    return this.to === this.bytes.length;
  }
}

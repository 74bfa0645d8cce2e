import { SIGNATURE_BYTES } from './signer.ts';

/** What a frame of a call is. The numbers are the wire between nodes: never given another meaning. */
export const FRAME = { request: 1, accept: 2, ack: 3, data: 4, cancel: 5, gone: 6, hint: 7 } as const;

/** What a data frame carries a part of. */
export const PART = { request: 1, emit: 2, ask: 3, answer: 4, askFailure: 5, result: 6, failure: 7 } as const;
export type Part = (typeof PART)[keyof typeof PART];

/** The version of these frames. Whoever takes a frame of another one it cannot read, says so (`gone`). */
export const FRAMES_VERSION = 1;

const HEAD = SIGNATURE_BYTES;
const REQUEST_HEAD = 1 + 1 + 8 + 4 + 4 + 1;
const DATA_HEAD = 1 + 4 + 1 + 4 + 1;
const ACK_HEAD = 1 + 4 + 1;

/** What every frame costs beside its payload. */
export const FRAME_OVERHEAD = HEAD + REQUEST_HEAD;

export interface RequestFrame {
  readonly call: string;
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

export function requestFrame(head: Omit<RequestFrame, 'first'>, pieces: Pieces, bytes: number): Buffer {
  const frame = Buffer.allocUnsafe(HEAD + REQUEST_HEAD + bytes);
  frame[HEAD] = FRAME.request;
  frame[HEAD + 1] = FRAMES_VERSION;
  frame.write(head.call, HEAD + 2, 'hex');
  frame.writeUInt32BE(head.deadlineMs, HEAD + 10);
  frame.writeUInt32BE(head.total, HEAD + 14);
  frame[HEAD + 18] = head.offered ? 1 : 0;
  pieces.copy(frame, HEAD + REQUEST_HEAD, bytes);
  return frame;
}

export function readRequest(frame: Buffer): RequestFrame | null {
  if (frame.length < REQUEST_HEAD || frame[1] !== FRAMES_VERSION) return null;
  return {
    call: frame.toString('hex', 2, 10),
    deadlineMs: frame.readUInt32BE(10),
    total: frame.readUInt32BE(14),
    offered: frame[18] === 1,
    first: frame.subarray(REQUEST_HEAD),
  };
}

export function dataFrame(seq: number, part: Part, ref: number, pieces: Pieces, bytes: number): Buffer {
  const frame = Buffer.allocUnsafe(HEAD + DATA_HEAD + bytes);
  frame[HEAD] = FRAME.data;
  frame.writeUInt32BE(seq, HEAD + 1);
  frame[HEAD + 5] = part;
  frame.writeUInt32BE(ref, HEAD + 6);
  pieces.copy(frame, HEAD + DATA_HEAD, bytes);
  frame[HEAD + 10] = pieces.left > 0 ? 1 : 0;
  return frame;
}

export function readData(frame: Buffer): DataFrame | null {
  if (frame.length < DATA_HEAD) return null;
  const part = frame[5]!;
  if (part < PART.request || part > PART.failure) return null;
  return {
    seq: frame.readUInt32BE(1),
    part: part as Part,
    ref: frame.readUInt32BE(6),
    more: frame[10] === 1,
    bytes: frame.subarray(DATA_HEAD),
  };
}

export function ackFrame(seq: number, resync: boolean): Buffer {
  const frame = Buffer.allocUnsafe(HEAD + ACK_HEAD);
  frame[HEAD] = FRAME.ack;
  frame.writeUInt32BE(seq, HEAD + 1);
  frame[HEAD + 5] = resync ? 1 : 0;
  return frame;
}

export function readAck(frame: Buffer): AckFrame | null {
  return frame.length < ACK_HEAD ? null : { seq: frame.readUInt32BE(1), resync: frame[5] === 1 };
}

/** `accept`, `cancel`, `gone` and hints: a kind and its bytes. */
export function plainFrame(kind: number, bytes: Buffer | readonly Buffer[] = EMPTY): Buffer {
  const pieces = new Pieces(bytes);
  const frame = Buffer.allocUnsafe(HEAD + 1 + pieces.left);
  frame[HEAD] = kind;
  pieces.copy(frame, HEAD + 1, pieces.left);
  return frame;
}

const EMPTY = Buffer.alloc(0);

/** A payload of one or several buffers, copied out from its beginning to its end. */
export class Pieces {
  readonly #buffers: readonly Buffer[];
  #at = 0;
  #offset = 0;
  left = 0;

  constructor(payload: Buffer | readonly Buffer[]) {
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

import { ChunkedDecoder } from './chunked-decoder.ts';
import { parseResponseHead, type ResponseHead } from './response-head.ts';

export const MAX_HEAD_BYTES = 64 * 1024;
const MAX_INTERIM = 8;
/** Longer heads are not cached. */
const MAX_REMEMBERED = 1024;
const END_OF_HEAD = Buffer.from('\r\n\r\n');
const PREFIX = Buffer.from('HTTP/1.');
const EMPTY = Buffer.alloc(0);

/** Receives what the parser finds. Each of these methods may call `stop` on the parser. */
export interface ResponseSink {
  onHead(head: ResponseHead): void;
  /** A range of the pushed buffer; valid during the call only. */
  onBody(bytes: Buffer, from: number, to: number): void;
  onEnd(): void;
}

export type ParseProblem = { readonly kind: 'protocol' | 'head_too_large'; readonly message: string };

type State = 'idle' | 'head' | 'length' | 'chunked' | 'until_close' | 'stopped';

/**
 * Incremental parser of the responses on one connection: `expect`, then `push` as bytes arrive and `eof` at their end. The
 * chunking of the bytes makes no difference. Bytes without a request are an error.
 */
export class ResponseParser {
  readonly #sink: ResponseSink;
  readonly #chunked = new ChunkedDecoder();
  #state: State = 'idle';
  #headRequest = false;
  #interim = 0;
  /** Head bytes of earlier pushes; grows by doubling. */
  #held: Buffer = EMPTY;
  #heldLength = 0;
  #remaining = 0;
  #bytes: Buffer = EMPTY;
  #lastText = '';
  #lastHead: ResponseHead | null = null;
  #lastToHead = false;
  /** One function for all chunked bodies of the connection. */
  readonly #onChunk = (from: number, to: number): boolean => {
    this.#sink.onBody(this.#bytes, from, to);
    return this.#state === 'chunked';
  };

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  /** Call it before the response to each request. */
  expect(headRequest: boolean): void {
    this.#state = 'head';
    this.#headRequest = headRequest;
    this.#interim = 0;
  }

  /** No more callbacks, whatever is pushed. */
  stop(): void {
    this.#state = 'stopped';
  }

  /** Some bytes of a head have arrived, but not all. */
  get headStarted(): boolean {
    return this.#state === 'head' && this.#heldLength > 0;
  }

  /** The head is complete and the body is not. */
  get inBody(): boolean {
    return this.#state === 'length' || this.#state === 'chunked' || this.#state === 'until_close';
  }

  /** Returns the error, or null. Does not keep the buffer. */
  push(bytes: Buffer, length: number): ParseProblem | null {
    let position = 0;
    while (position < length) {
      switch (this.#state) {
        case 'stopped':
          return null;
        case 'idle':
          return protocol('bytes came that belong to no response');
        case 'head': {
          const next = this.#pushHead(bytes, position, length);
          if (typeof next !== 'number') return next;
          position = next;
          break;
        }
        case 'chunked': {
          this.#bytes = bytes;
          const next = this.#chunked.push(bytes, position, length, this.#onChunk);
          this.#bytes = EMPTY;
          if (typeof next === 'string') return this.#stopped(next);
          position = next;
          if (this.#chunked.done && this.#isChunked()) this.#end();
          break;
        }
        default:
          position = this.#pushPlain(bytes, position, length);
      }
    }
    return null;
  }

  /** The server sends no more. True if that is a valid end of the response, or none was expected. */
  eof(): boolean {
    if (this.#state === 'until_close') this.#end();
    return this.#state === 'idle' || this.#state === 'stopped';
  }

  #isChunked(): boolean {
    return this.#state === 'chunked';
  }

  #pushPlain(bytes: Buffer, position: number, length: number): number {
    if (this.#state === 'until_close') {
      this.#sink.onBody(bytes, position, length);
      return length;
    }
    const to = Math.min(length, position + this.#remaining);
    this.#remaining -= to - position;
    this.#sink.onBody(bytes, position, to);
    if (this.#remaining === 0 && this.#state === 'length') this.#end();
    return to;
  }

  /** Returns the position after the head, or after all bytes while the head is incomplete. */
  #pushHead(bytes: Buffer, position: number, length: number): number | ParseProblem {
    let text: string;
    let next: number;
    if (this.#heldLength === 0) {
      if (!startsLikeHttp(bytes, position, length)) return this.#stopped('the answer is not HTTP/1.x');
      const end = bytes.indexOf(END_OF_HEAD, position);
      if (end < 0 || end + 4 > length) return this.#hold(bytes, position, length);
      if (end + 4 - position > MAX_HEAD_BYTES) return this.#tooLong();
      text = bytes.toString('latin1', position, end);
      next = end + 4;
    } else {
      const before = this.#heldLength;
      const held = this.#hold(bytes, position, length);
      if (typeof held !== 'number') return held;
      if (!startsLikeHttp(this.#held, 0, this.#heldLength)) return this.#stopped('the answer is not HTTP/1.x');
      const end = this.#held.subarray(0, this.#heldLength).indexOf(END_OF_HEAD, Math.max(0, before - 3));
      if (end < 0) return held;
      if (end + 4 > MAX_HEAD_BYTES) return this.#tooLong();
      text = this.#held.toString('latin1', 0, end);
      next = position + (end + 4 - before);
      this.#held = EMPTY;
      this.#heldLength = 0;
    }
    const problem = this.#head(text);
    return problem ?? next;
  }

  /** Keeps head bytes for later, never more than the limit. Returns the position after all bytes. */
  #hold(bytes: Buffer, position: number, length: number): number | ParseProblem {
    const room = MAX_HEAD_BYTES - this.#heldLength;
    const taken = Math.min(room, length - position);
    if (this.#held.length < this.#heldLength + taken) {
      const larger = Buffer.allocUnsafe(Math.max(1024, (this.#heldLength + taken) * 2));
      this.#held.copy(larger, 0, 0, this.#heldLength);
      this.#held = larger;
    }
    bytes.copy(this.#held, this.#heldLength, position, position + taken);
    this.#heldLength += taken;
    if (this.#heldLength === MAX_HEAD_BYTES && this.#held.subarray(0, MAX_HEAD_BYTES).indexOf(END_OF_HEAD) < 0) {
      return startsLikeHttp(this.#held, 0, 8) ? this.#tooLong() : this.#stopped('the answer is not HTTP/1.x');
    }
    return length;
  }

  #head(text: string): ParseProblem | null {
    const head = this.#parsed(text);
    if (typeof head === 'string') return this.#stopped(head);
    if (head.status < 200) {
      if (head.status === 101) return this.#stopped('the server switched protocols unasked');
      if (++this.#interim > MAX_INTERIM) return this.#stopped('too many interim responses');
      return null;
    }
    const framing = head.framing;
    if (framing.kind === 'length') {
      this.#state = 'length';
      this.#remaining = framing.length;
    } else if (framing.kind === 'chunked') {
      this.#state = 'chunked';
      this.#chunked.reset();
    } else if (framing.kind === 'until_close') {
      this.#state = 'until_close';
    } else {
      // Without a body, head and end are reported together, unless the receiver stops in between.
      this.#state = 'length';
      this.#remaining = 0;
      this.#sink.onHead(head);
      if (!this.#isStopped()) this.#end();
      return null;
    }
    this.#sink.onHead(head);
    return null;
  }

  /** Servers repeat their heads exactly (within a second of `Date`), so the last parsed head is cached. */
  #parsed(text: string): ResponseHead | string {
    if (this.#lastHead !== null && this.#lastText === text && this.#lastToHead === this.#headRequest) {
      return this.#lastHead;
    }
    const head = parseResponseHead(text, this.#headRequest);
    this.#lastHead = typeof head === 'string' || text.length > MAX_REMEMBERED ? null : head;
    this.#lastText = this.#lastHead === null ? '' : text;
    this.#lastToHead = this.#headRequest;
    return head;
  }

  #isStopped(): boolean {
    return this.#state === 'stopped';
  }

  #end(): void {
    this.#state = 'idle';
    this.#sink.onEnd();
  }

  #tooLong(): ParseProblem {
    this.#state = 'stopped';
    return {
      kind: 'head_too_large',
      message: `the head of the answer is larger than the limit of ${MAX_HEAD_BYTES} bytes`,
    };
  }

  #stopped(message: string): ParseProblem {
    this.#state = 'stopped';
    return protocol(message);
  }
}

/** Whether the bytes so far can be the beginning of a status line; false at the first byte that cannot. */
function startsLikeHttp(bytes: Buffer, from: number, to: number): boolean {
  const length = Math.min(PREFIX.length, to - from);
  for (let i = 0; i < length; i++) if (bytes[from + i] !== PREFIX[i]) return false;
  return true;
}

function protocol(message: string): ParseProblem {
  return { kind: 'protocol', message };
}

import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { ByteGatherer } from '../../model/byte-gatherer.ts';
import type { BodyBudget } from '../context/body-budget.ts';
import type { BodyCallback } from '../context/http-context.ts';
import type { Refusal } from '../context/refusal.ts';
import { clientErrorRefusal } from '../context/refusal.ts';

interface BodyType {
  readonly name: string;
  /** Matches with and without a charset. */
  readonly pattern: RegExp;
}

const JSON_BODY = typeOf('application/json');
export const FORM_BODY = typeOf('application/x-www-form-urlencoded');

function typeOf(name: string): BodyType {
  return { name, pattern: new RegExp(`^${name}[ \\t]*(?:;[ \\t]*charset[ \\t]*=[ \\t]*"?utf-8"?[ \\t]*)?;?$`, 'i') };
}

/** Why a request is refused before its body is read, by its headers; null if the body may be read. */
export function bodyRefusal(
  headers: Readonly<IncomingHttpHeaders>,
  maxBytes: number,
  wanted: BodyType = JSON_BODY,
): Refusal | null {
  const type = headers['content-type'];
  if (type !== wanted.name && (type === undefined || !wanted.pattern.test(type))) {
    return unsupported(`the body must be ${wanted.name} in UTF-8`);
  }
  const coding = headers['content-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    return unsupported('a content coding is not taken; send the body as it is');
  }
  if (headers['transfer-encoding'] !== undefined) return null;
  const length = Number(headers['content-length'] ?? 0);
  if (length > maxBytes) return tooLarge(maxBytes);
  return length > 0 ? null : emptyBody;
}

const emptyBody: Refusal = { status: 400, code: 'empty_body', message: 'the request has no body' };

function tooLarge(maxBytes: number): Refusal {
  return { status: 413, code: 'body_too_large', message: `the body is larger than ${maxBytes} bytes` };
}

function unsupported(message: string): Refusal {
  return { status: 415, code: 'unsupported_media_type', message };
}

/** As announced in the headers; -1 if it is not. */
export function announcedLength(headers: Readonly<IncomingHttpHeaders>): number {
  const length = headers['content-length'];
  return length === undefined ? -1 : Number(length);
}

/**
 * Reads one request body up to a limit. A body that arrives in one piece is passed on as it is; one in several pieces holds
 * a share of the budget until it is complete.
 */
export class BodyReader {
  readonly #request: IncomingMessage;
  readonly #maxBytes: number;
  readonly #budget: BodyBudget;
  readonly #expected: number;
  readonly #done: BodyCallback;
  #first: Buffer | null = null;
  #more: ByteGatherer | null = null;
  #length = 0;
  #share = 0;
  #deadline: NodeJS.Timeout | null = null;
  #finished = false;

  constructor(request: IncomingMessage, maxBytes: number, budget: BodyBudget, done: BodyCallback) {
    this.#request = request;
    this.#maxBytes = maxBytes;
    this.#budget = budget;
    this.#done = done;
    this.#expected = announcedLength(request.headers);
    request.on('data', (chunk: Buffer) => this.#data(chunk));
    if (this.#expected < 0) request.on('end', () => this.#end());
  }

  #data(chunk: Buffer): void {
    if (this.#finished) return;
    this.#length += chunk.length;
    if (this.#length > this.#maxBytes) {
      this.#finish(null, tooLarge(this.#maxBytes));
      return;
    }
    if (this.#length !== this.#expected && !this.#hold()) {
      this.#finish(null, this.#budget.refuse());
      return;
    }
    if (this.#first === null) this.#first = chunk;
    else {
      if (this.#more === null) {
        this.#more = new ByteGatherer();
        this.#more.add(this.#first);
      }
      this.#more.add(chunk);
    }
    if (this.#length === this.#expected) this.#end();
  }

  #end(): void {
    if (this.#finished) return;
    if (this.#first === null) this.#finish(null, emptyBody);
    else this.#finish(this.#more === null ? this.#first : this.#more.take(), null);
  }

  /** Grows the share for the received bytes; false if the budget has no room for that. */
  #hold(): boolean {
    const share = this.#budget.grow(this.#share, this.#length, this.#expected);
    if (share < 0) return false;
    if (this.#deadline === null) {
      this.#request.once('close', () => this.#letGo());
      const late = (): void => this.#finish(null, clientErrorRefusal('ERR_HTTP_REQUEST_TIMEOUT'));
      this.#deadline = setTimeout(late, this.#budget.holdMs).unref();
    }
    this.#share = share;
    return true;
  }

  /** Releases buffers and share: the body is complete, refused or aborted. */
  #letGo(): void {
    this.#finished = true;
    this.#first = null;
    this.#more = null;
    if (this.#deadline === null) return;
    clearTimeout(this.#deadline);
    this.#budget.giveBack(this.#share);
    this.#share = 0;
  }

  #finish(body: Buffer | null, refusal: Refusal | null): void {
    this.#letGo();
    // The rest of a refused body is discarded until the connection is closed.
    if (refusal !== null) this.#request.resume();
    this.#done(body, refusal);
  }
}

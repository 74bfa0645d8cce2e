import { IntegerMap } from '../../model/integer-map.ts';
import { firstMember, nextMember, valueAfter } from '../../protocol/fields.ts';
import { isBatch, isScanFailure, scanBatch } from '../../protocol/scan.ts';
import { skipSpace, skipString, skipValue } from '../../protocol/skip.ts';

/** A request is identified here by its id modulo this number. */
export const REQUEST_ID_MODULUS = 1e9;
/** Bytes at a line's end that hold `,"jsonrpc":"2.0","id":123}` with generous white space. */
const TAIL_BYTES = 96;
/** The id as last or last but one member, where the TypeScript SDK and others write it. */
const ID_AT_END = /[,{]\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/;

/**
 * The gateway's request that a line on a shared channel answers, 0 if none: an answer has `result` or `error`, no `method`, and
 * an integer id; the request is returned as the id modulo `REQUEST_ID_MODULUS`. So a pipe knows what is in flight without parsing
 * messages. It reads the envelope only and needs no complete message: `head` is the beginning of the line, `tail` its end; for
 * a complete line both are the line.
 */
export function answeredRequest(head: Buffer, tail: Buffer): number {
  const end = head.length;
  let id = 0;
  let isAnswer = false;
  let at = firstMember(head, skipSpace(head, 0), end);
  while (at >= 0) {
    const keyStart = at + 1;
    const keyEnd = skipString(head, at, end) - 1;
    if (keyEnd < 0) break;
    // The beginning of a long line may end here.
    const value = valueAfter(head, keyEnd + 1, end);
    if (isText(head, keyStart, keyEnd, 'method')) return 0;
    if (isText(head, keyStart, keyEnd, 'id')) id = value < 0 ? 0 : integer(head, value);
    if (isText(head, keyStart, keyEnd, 'result') || isText(head, keyStart, keyEnd, 'error')) {
      isAnswer = true;
      if (id > 0) return id;
      const last = idAtEnd(tail);
      if (last > 0) return last;
    }
    const valueEnd = value < 0 ? -1 : skipValue(head, value, end);
    at = valueEnd < 0 ? -1 : nextMember(head, valueEnd, end);
  }
  return isAnswer ? id : 0;
}

/** Whether the bytes are this ASCII text. */
export function isText(bytes: Buffer, start: number, end: number, text: string): boolean {
  if (end - start !== text.length) return false;
  for (let i = 0; i < text.length; i++) if (bytes[start + i] !== text.charCodeAt(i)) return false;
  return true;
}

/** The request for this positive integer id, followed by anything that ends a number; 0 for all else. */
function integer(bytes: Buffer, at: number): number {
  const start = at;
  let value = 0;
  for (let c = bytes[at]; c !== undefined && c >= 0x30 && c <= 0x39; c = bytes[++at]) value = value * 10 + (c - 0x30);
  const next = bytes[at];
  const whole = next !== undefined && next !== 0x2e && next !== 0x45 && next !== 0x65;
  return at > start && whole && Number.isSafeInteger(value) ? value % REQUEST_ID_MODULUS : 0;
}

function idAtEnd(tail: Buffer): number {
  const match = ID_AT_END.exec(tail.toString('latin1', Math.max(0, tail.length - TAIL_BYTES)));
  return match === null ? 0 : Number(match[1]) % REQUEST_ID_MODULUS;
}

/** Unanswered requests on a channel that all messages share, tracked by the ids of the answers. */
export class InFlight {
  readonly #requests = new IntegerMap<true>();

  get size(): number {
    return this.#requests.size;
  }

  /** Ignores 0, which is not a request. */
  add(request: number): void {
    if (request > 0) this.#requests.set(request, true);
  }

  has(request: number): boolean {
    return this.#requests.has(request);
  }

  /** False if it is not in flight. */
  delete(request: number): boolean {
    return this.#requests.delete(request);
  }

  /** Removes the requests that a message or batch of the server answers, and reports each to `settled`. */
  settle(bytes: Buffer, settled?: (request: number) => void): void {
    if (this.#requests.size === 0) return;
    const batch = isBatch(bytes) ? scanBatch(bytes) : [bytes];
    if (isScanFailure(batch)) return;
    for (const element of batch) {
      const request = answeredRequest(element, element);
      if (this.#requests.delete(request)) settled?.(request);
    }
  }

  /** Removes and returns all requests, oldest first. */
  takeAll(): number[] {
    const requests = this.#requests.numbers();
    this.#requests.clear();
    return requests;
  }
}

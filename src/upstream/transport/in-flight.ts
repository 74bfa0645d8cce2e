import { ByNumber } from '../../model/by-number.ts';
import { firstMember, nextMember, valueAfter } from '../../protocol/fields.ts';
import { isBatch, isScanFailure, scanBatch } from '../../protocol/scan.ts';
import { skipSpace, skipString, skipValue } from '../../protocol/skip.ts';

/** A request is known here by the digits of its id below this. */
export const OWN_DIGITS = 1e9;
/** Enough of a line's end for `,"jsonrpc":"2.0","id":123}` with generous white space. */
const TAIL_BYTES = 96;
/** The id as last or last but one member: where the TypeScript SDK and others write it. */
const ID_AT_END = /[,{]\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/;

/**
 * Which request of ours a line on a shared channel answers, 0 if none: it carries `result` or `error`, no `method`, and
 * a plain integer id. It is given by the digits that it is known by. So a pipe knows what is still in flight without
 * reading messages. It looks at the envelope only and needs no whole message: `head` is the line's beginning, `tail` its
 * end; both are the line where that is at hand.
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

/** Whether these bytes are this text of ASCII characters. */
export function isText(bytes: Buffer, start: number, end: number, text: string): boolean {
  if (end - start !== text.length) return false;
  for (let i = 0; i < text.length; i++) if (bytes[start + i] !== text.charCodeAt(i)) return false;
  return true;
}

/** Our number of the request with this positive integer as id, followed by anything that ends a number; 0 for all else. */
function integer(bytes: Buffer, at: number): number {
  const start = at;
  let value = 0;
  for (let c = bytes[at]; c !== undefined && c >= 0x30 && c <= 0x39; c = bytes[++at]) value = value * 10 + (c - 0x30);
  const next = bytes[at];
  const whole = next !== undefined && next !== 0x2e && next !== 0x45 && next !== 0x65;
  return at > start && whole && Number.isSafeInteger(value) ? value % OWN_DIGITS : 0;
}

function idAtEnd(tail: Buffer): number {
  const match = ID_AT_END.exec(tail.toString('latin1', Math.max(0, tail.length - TAIL_BYTES)));
  return match === null ? 0 : Number(match[1]) % OWN_DIGITS;
}

/** Requests without an answer so far on a channel that all messages share, known from the ids of the answers. */
export class InFlight {
  readonly #requests = new ByNumber<true>();

  get size(): number {
    return this.#requests.size;
  }

  /** 0, which is no request, is passed over. */
  add(request: number): void {
    if (request > 0) this.#requests.set(request, true);
  }

  has(request: number): boolean {
    return this.#requests.has(request);
  }

  /** False when it is not in flight. */
  delete(request: number): boolean {
    return this.#requests.delete(request);
  }

  /** What came from the server, one message or a batch: what it answers is in flight no more. */
  settle(bytes: Buffer): void {
    if (this.#requests.size === 0) return;
    if (!isBatch(bytes)) {
      this.#requests.delete(answeredRequest(bytes, bytes));
      return;
    }
    const batch = scanBatch(bytes);
    if (isScanFailure(batch)) return;
    for (const element of batch) this.#requests.delete(answeredRequest(element, element));
  }

  /** Takes out all that are left, oldest first. */
  takeAll(): number[] {
    const requests = this.#requests.numbers();
    this.#requests.clear();
    return requests;
  }
}

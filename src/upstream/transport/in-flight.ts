import { ByNumber } from '../../model/by-number.ts';
import { isBatch, isScanFailure, scanBatch } from '../../protocol/scan.ts';
import { answeredRequest } from './answered-request.ts';

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

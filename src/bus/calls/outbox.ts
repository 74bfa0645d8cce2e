import { ENTRY_AT, type End, writeEntry } from './frames.ts';

/** What one message holds at the most; a frame that is longer goes alone. */
const BUNDLE_BYTES = 64 * 1024;

interface Bundle {
  readonly frames: Buffer[];
  bytes: number;
  /** A call begins in it, so that it matters whether anybody hears it. */
  begins: boolean;
  number: number;
}

export interface OutboxDeps {
  /** No message is longer. */
  readonly maxPayload: () => number;
  /** Signs the message, which has room for that at its front, and sends it. `begins`: its number, else null. */
  readonly send: (peer: string, message: Buffer, begins: number | null) => void;
}

/**
 * What goes to one peer within one turn of the loop leaves as one message: one signature, one subject and one write to
 * the connection for all calls that move at the same time. Frames are in order, whatever they belong to.
 */
export class Outbox {
  readonly #deps: OutboxDeps;
  readonly #bundles = new Map<string, Bundle>();
  readonly #flush = (): void => this.flush();
  #numbers = 0;
  #scheduled = false;

  constructor(deps: OutboxDeps) {
    this.#deps = deps;
  }

  /** The number of the message that the frame will leave in. The frame stays as it is until the turn is over. */
  add(peer: string, end: End, call: string, frame: Buffer): number {
    writeEntry(frame, end, call);
    const bytes = frame.length - ENTRY_AT;
    const limit = Math.min(BUNDLE_BYTES, this.#deps.maxPayload() - ENTRY_AT);
    let bundle = this.#bundles.get(peer);
    if (bundle !== undefined && bundle.bytes + bytes > limit) {
      this.#send(peer, bundle);
      bundle = undefined;
    }
    if (bundle === undefined) {
      bundle = { frames: [frame], bytes, begins: end === 'new', number: ++this.#numbers };
      if (bytes > limit) this.#send(peer, bundle);
      else {
        this.#bundles.set(peer, bundle);
        this.#schedule();
      }
    } else {
      bundle.frames.push(frame);
      bundle.bytes += bytes;
      bundle.begins ||= end === 'new';
    }
    return bundle.number;
  }

  /** Everything leaves now. */
  flush(): void {
    this.#scheduled = false;
    for (const [peer, bundle] of this.#bundles) this.#send(peer, bundle);
  }

  /** What waits is lost: the numbers of the messages that it would have left in. */
  clear(): ReadonlySet<number> {
    const lost = new Set([...this.#bundles.values()].map(({ number }) => number));
    this.#bundles.clear();
    return lost;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // After everything that has come in has been looked at, from all connections, and before the loop waits.
    setImmediate(this.#flush);
  }

  #send(peer: string, { frames, bytes, begins, number }: Bundle): void {
    this.#bundles.delete(peer);
    let message = frames[0]!;
    if (frames.length > 1) {
      message = Buffer.allocUnsafe(ENTRY_AT + bytes);
      let at = ENTRY_AT;
      for (const frame of frames) at += frame.copy(message, at, ENTRY_AT);
    }
    this.#deps.send(peer, message, begins ? number : null);
  }
}

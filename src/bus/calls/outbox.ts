import type { CallId } from './call-id.ts';
import { ENTRY_AT, type End, writeEntry } from './frames.ts';

/** What one message holds at the most; a frame that is longer goes alone. */
const BUNDLE_BYTES = 64 * 1024;
/** Of so many peers, those for whom nothing waits are forgotten. */
const MANY_PEERS = 256;

/** What waits for one peer; it is used again for what waits afterwards. */
class Bundle {
  readonly frames: Buffer[] = [];
  bytes = 0;
  /** A call begins in it, so that it matters whether anybody hears it. */
  begins = false;
  /** New with its first frame. */
  number = 0;

  /** It has been sent, or lost. */
  clear(): void {
    this.frames.length = 0;
    this.bytes = 0;
    this.begins = false;
  }
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
  add(peer: string, end: End, call: CallId, frame: Buffer): number {
    writeEntry(frame, end, call);
    const bytes = frame.length - ENTRY_AT;
    const limit = Math.min(BUNDLE_BYTES, this.#deps.maxPayload() - ENTRY_AT);
    const bundle = this.#bundles.get(peer) ?? this.#bundleFor(peer);
    if (bundle.frames.length > 0 && bundle.bytes + bytes > limit) this.#send(peer, bundle);
    if (bundle.frames.length === 0) bundle.number = ++this.#numbers;
    bundle.frames.push(frame);
    bundle.bytes += bytes;
    bundle.begins ||= end === 'new';
    if (bytes > limit) this.#send(peer, bundle);
    else this.#schedule();
    return bundle.number;
  }

  /** Everything leaves now. */
  flush(): void {
    this.#scheduled = false;
    for (const [peer, bundle] of this.#bundles) if (bundle.frames.length > 0) this.#send(peer, bundle);
  }

  /** What waits is lost: the numbers of the messages that it would have left in. */
  clear(): ReadonlySet<number> {
    const waiting = [...this.#bundles.values()].filter(({ frames }) => frames.length > 0);
    const lost = new Set(waiting.map(({ number }) => number));
    this.#bundles.clear();
    return lost;
  }

  #bundleFor(peer: string): Bundle {
    if (this.#bundles.size >= MANY_PEERS) {
      for (const [other, { frames }] of this.#bundles) if (frames.length === 0) this.#bundles.delete(other);
    }
    const bundle = new Bundle();
    this.#bundles.set(peer, bundle);
    return bundle;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // After everything that has come in has been looked at, from all connections, and before the loop waits.
    setImmediate(this.#flush);
  }

  #send(peer: string, bundle: Bundle): void {
    const { frames, bytes, begins, number } = bundle;
    let message = frames[0]!;
    if (frames.length > 1) {
      message = Buffer.allocUnsafe(ENTRY_AT + bytes);
      let at = ENTRY_AT;
      for (const frame of frames) at += frame.copy(message, at, ENTRY_AT);
    }
    bundle.clear();
    this.#deps.send(peer, message, begins ? number : null);
  }
}

import { bundleSubject, noResponderSubject } from '../subjects.ts';
import type { Signer } from '../trust/signer.ts';
import type { Wire } from '../wire.ts';
import { type CallId, ENTRY_AT, type End, writeEntry } from './frames.ts';

/** A longer frame is sent alone. */
const BUNDLE_BYTES = 64 * 1024;

interface Bundle {
  readonly peer: string;
  readonly number: number;
  readonly frames: Buffer[];
  bytes: number;
  /** A call begins in it, so a missing subscriber must be reported. */
  begins: boolean;
}

/**
 * Signs and sends everything that leaves a bus, in order. Sends the frames to one peer within one turn of the event loop as one
 * message (a bundle): one signature, subject and write for all.
 */
export class FrameSender {
  readonly #wire: Wire;
  readonly #signer: Signer;
  /** At most one per peer. */
  #waiting: Bundle[] = [];
  readonly #flush = (): void => this.flush();
  #numbers = 0;

  constructor(wire: Wire, signer: Signer) {
    this.#wire = wire;
    this.#signer = signer;
  }

  /** Takes ownership of the frame. Returns the number of the message that carries it; 0 without a connection. */
  transmit(peer: string, end: End, call: CallId, frame: Buffer): number {
    if (!this.#wire.connected) return 0;
    writeEntry(frame, end, call);
    const bytes = frame.length - ENTRY_AT;
    const limit = Math.min(BUNDLE_BYTES, this.#wire.maxPayload - ENTRY_AT);
    let bundle = this.#waiting.find((waiting) => waiting.peer === peer);
    if (bundle !== undefined && bundle.bytes + bytes > limit) {
      this.#waiting.splice(this.#waiting.indexOf(bundle), 1);
      this.#send(bundle);
      bundle = undefined;
    }
    const first = bundle === undefined;
    bundle ??= { peer, number: ++this.#numbers, frames: [], bytes: 0, begins: false };
    bundle.frames.push(frame);
    bundle.bytes += bytes;
    bundle.begins ||= end === 'new';
    if (bytes > limit) this.#send(bundle);
    // Runs after all input of this turn, before the event loop waits.
    else if (first && this.#waiting.push(bundle) === 1) setImmediate(this.#flush);
    return bundle.number;
  }

  /** Sends a message after everything queued before it. */
  publish(subject: string, message: Buffer): void {
    if (!this.#wire.connected) return;
    this.flush();
    this.#signer.sign(message, subject);
    this.#wire.publish(subject, message);
  }

  flush(): void {
    for (const bundle of this.#taken()) this.#send(bundle);
  }

  /** Drops the queued messages and returns their numbers. */
  dropQueued(): ReadonlySet<number> {
    return new Set(this.#taken().map(({ number }) => number));
  }

  #taken(): Bundle[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    return waiting;
  }

  #send({ peer, number, frames, bytes, begins }: Bundle): void {
    const message = frames.length === 1 ? frames[0]! : joined(frames, bytes);
    const subject = bundleSubject(peer);
    this.#signer.sign(message, subject);
    this.#wire.publish(subject, message, begins ? noResponderSubject(this.#signer.peer, number) : undefined);
  }
}

function joined(frames: readonly Buffer[], bytes: number): Buffer {
  const message = Buffer.allocUnsafe(ENTRY_AT + bytes);
  let at = ENTRY_AT;
  for (const frame of frames) at += frame.copy(message, at, ENTRY_AT);
  return message;
}

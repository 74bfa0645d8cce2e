import type { Random } from '../../model/random.ts';
import { bundleSubject, callSubject, unheardSubject } from '../subjects.ts';
import type { Signer } from '../trust/signer.ts';
import type { Wire } from '../wire.ts';
import { type CallId, callText } from './call-id.ts';
import { aloneMessage, type End } from './frames.ts';
import { Outbox } from './outbox.ts';

/** Whoever is forgotten shows it again with the next message. */
const MAX_READERS = 4096;

/** All that leaves a bus, signed: frames for a peer in bundles where that reads them, everything else as it comes. */
export class FramePost {
  readonly #wire: Wire;
  readonly #signer: Signer;
  readonly #outbox: Outbox;
  /** Peers that have shown that they read bundles. Others get their frames one by one. */
  readonly #readers = new Set<string>();
  /** Of the calls of this peer: no two peers' begin alike. */
  readonly family: number;
  #lastCall: number;

  constructor(wire: Wire, signer: Signer, random: Random) {
    this.#wire = wire;
    this.#signer = signer;
    this.family = Number.parseInt(random.hex(4), 16);
    this.#lastCall = Number.parseInt(random.hex(4), 16);
    this.#outbox = new Outbox({
      maxPayload: () => wire.maxPayload,
      send: (peer, message, begins) => this.#send(peer, message, begins),
    });
  }

  /** A number for a call, above 0. */
  nextCall(): number {
    this.#lastCall = (this.#lastCall + 1) >>> 0 || 1;
    return this.#lastCall;
  }

  /** The peer reads bundles. */
  reads(peer: string): void {
    if (this.#readers.has(peer)) return;
    if (this.#readers.size >= MAX_READERS) this.#readers.clear();
    this.#readers.add(peer);
  }

  /** The peer is gone. */
  forget(peer: string): void {
    this.#readers.delete(peer);
  }

  transmit(peer: string, end: Exclude<End, 'new'>, call: CallId, frame: Buffer): void {
    if (!this.#wire.connected) return;
    if (this.#readers.has(peer)) this.#outbox.add(peer, end, call, frame);
    else this.publish(callSubject(peer, end === 'caller' ? 'c' : 's', callText(call)), aloneMessage(frame));
  }

  /** The number of the bundle; 0 where the request goes alone. */
  request(peer: string | null, subject: string, call: CallId, frame: Buffer): number {
    if (peer !== null && this.#readers.has(peer) && this.#wire.connected)
      return this.#outbox.add(peer, 'new', call, frame);
    this.publish(subject, aloneMessage(frame), unheardSubject(this.#signer.peer, 'c', callText(call)));
    return 0;
  }

  /** A message that goes past the outbox, behind everything that came before it. */
  publish(subject: string, message: Buffer, reply?: string): void {
    if (!this.#wire.connected) return;
    this.#outbox.flush();
    this.#signer.sign(message, subject);
    this.#wire.publish(subject, message, reply === undefined ? {} : { reply });
  }

  /** What waits leaves now. */
  flush(): void {
    this.#outbox.flush();
  }

  /** The connection is lost, and what waits with it: the numbers of the bundles that never left. */
  lost(): ReadonlySet<number> {
    return this.#outbox.clear();
  }

  #send(peer: string, message: Buffer, begins: number | null): void {
    const subject = bundleSubject(peer);
    this.#signer.sign(message, subject);
    const options = begins === null ? {} : { reply: unheardSubject(this.#signer.peer, 'b', String(begins)) };
    this.#wire.publish(subject, message, options);
  }
}

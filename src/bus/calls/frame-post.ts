import { bundleSubject, callSubject, unheardSubject } from '../subjects.ts';
import type { Signer } from '../trust/signer.ts';
import type { Wire } from '../wire.ts';
import { Bundles } from './bundles.ts';
import { type CallId, callText } from './call-id.ts';
import {
  aloneMessage,
  dataFrame,
  dataLength,
  type End,
  FRAME_AT,
  type Part,
  type RequestHead,
  requestLength,
  writeData,
  writeRequest,
} from './frames.ts';
import type { Pieces } from './pieces.ts';

/** Whoever is forgotten shows it again with the next message. */
const MAX_READERS = 4096;

/** All that leaves a bus, signed: frames for a peer in bundles where that reads them, everything else as it comes. */
export class FramePost {
  readonly #wire: Wire;
  readonly #signer: Signer;
  readonly #bundles: Bundles;
  /** Peers that have shown that they read bundles. Others get their frames one by one. */
  readonly #readers = new Set<string>();

  constructor(wire: Wire, signer: Signer) {
    this.#wire = wire;
    this.#signer = signer;
    this.#bundles = new Bundles({
      maxPayload: () => wire.maxPayload,
      send: (peer, message, begins) => this.#send(peer, message, begins),
    });
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
    if (this.#readers.has(peer)) this.#bundles.add(peer, end, call, frame);
    else this.publish(callSubject(peer, end === 'caller' ? 'c' : 's', callText(call)), aloneMessage(frame));
  }

  /** All that is said to the caller of a short call, in one frame. */
  answer(peer: string, call: CallId, part: Part, pieces: Pieces): void {
    if (!this.#wire.connected) return;
    const length = dataLength(pieces.left);
    const room = this.#readers.has(peer) ? this.#bundles.room(peer, 'caller', call, length) : null;
    if (room === null) this.transmit(peer, 'caller', call, dataFrame(1, part, 0, pieces, pieces.left));
    else writeData(room.bytes, room.at, 1, part, 0, pieces, pieces.left);
  }

  /** With so much of the payload. The number of the bundle; 0 where the request goes alone. */
  request(
    peer: string | null,
    subject: string,
    call: CallId,
    head: RequestHead,
    pieces: Pieces,
    bytes: number,
  ): number {
    const length = requestLength(subject, bytes);
    const bundled = peer !== null && this.#readers.has(peer) && this.#wire.connected;
    const room = bundled ? this.#bundles.room(peer, 'new', call, length) : null;
    if (room !== null) {
      writeRequest(room.bytes, room.at, subject, call, head, pieces, bytes);
      return room.number;
    }
    const frame = Buffer.allocUnsafe(FRAME_AT + length);
    writeRequest(frame, FRAME_AT, subject, call, head, pieces, bytes);
    if (bundled) return this.#bundles.add(peer, 'new', call, frame);
    this.publish(subject, aloneMessage(frame), unheardSubject(this.#signer.peer, 'c', callText(call)));
    return 0;
  }

  /** A message that goes past the bundles, behind everything that came before it. */
  publish(subject: string, message: Buffer, reply?: string): void {
    if (!this.#wire.connected) return;
    this.#bundles.flush();
    this.#signer.sign(message, subject);
    this.#wire.publish(subject, message, reply === undefined ? {} : { reply });
  }

  /** What waits leaves now. */
  flush(): void {
    this.#bundles.flush();
  }

  /** The connection is lost, and what waits with it: the numbers of the bundles that never left. */
  lost(): ReadonlySet<number> {
    return this.#bundles.clear();
  }

  #send(peer: string, message: Buffer, begins: number | null): void {
    const subject = bundleSubject(peer);
    this.#signer.sign(message, subject);
    const options = begins === null ? {} : { reply: unheardSubject(this.#signer.peer, 'b', String(begins)) };
    this.#wire.publish(subject, message, options);
  }
}

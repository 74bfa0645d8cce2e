import { ByNumber } from '../../model/by-number.ts';
import type { Random } from '../../model/random.ts';
import type { BusCallOptions, Payload } from '../bus.ts';
import { noResponderSubjects } from '../subjects.ts';
import type { Wire, WireMessage } from '../wire.ts';
import type { CallTransport } from './call-transport.ts';
import { type CallId, FRAME, type Framed, keyOf, plainFrame, readAck, readData, wordsOf } from './frames.ts';
import { OutgoingCall } from './outgoing-call.ts';

export class OutgoingCalls {
  readonly #calls = new ByNumber<OutgoingCall>();
  readonly #transport: CallTransport;
  /** Random. */
  readonly #family: number;
  #lastNumber: number;
  readonly #began: () => void;
  readonly #ended = (call: OutgoingCall): void => void this.#calls.delete(keyOf(call));

  readonly #noResponders: { close(): Promise<void> };

  /** `began`: calls must be ticked. */
  constructor(transport: CallTransport, wire: Wire, peer: string, random: Random, began: () => void) {
    this.#transport = transport;
    this.#noResponders = wire.subscribe(noResponderSubjects(peer), (message) => this.#noResponder(message));
    this.#family = Number.parseInt(random.hex(4), 16);
    this.#lastNumber = Number.parseInt(random.hex(4), 16);
    this.#began = began;
  }

  get size(): number {
    return this.#calls.size;
  }

  begin(subject: string, payload: Payload, options: BusCallOptions): OutgoingCall {
    // Four bytes, not 0.
    this.#lastNumber = (this.#lastNumber + 1) >>> 0 || 1;
    const id = { family: this.#family, number: this.#lastNumber };
    const call = new OutgoingCall(this.#transport, id, subject, options, this.#ended);
    this.#calls.set(keyOf(call), call);
    this.#began();
    call.start(payload);
    return call;
  }

  take(id: CallId, from: string, frame: Framed): void {
    const call = this.#calls.get(keyOf(id));
    const kind = frame.bytes[frame.from];
    if (call === undefined) {
      if (kind !== FRAME.gone && kind !== FRAME.cancel && kind !== FRAME.unserved)
        this.#transport.post.transmit(
          from,
          'serving',
          id,
          plainFrame(FRAME.cancel, Buffer.from('the caller has left')),
        );
    } else if (call.to !== from) return;
    else if (kind === FRAME.data) {
      const data = readData(frame);
      if (data !== null) call.data(data);
    } else if (kind === FRAME.ack) {
      const ack = readAck(frame);
      if (ack !== null) call.ack(ack);
    } else if (kind === FRAME.accept) call.accepted();
    else if (kind === FRAME.unserved) call.notSent(wordsOf(frame));
    else if (kind === FRAME.gone) call.gone(wordsOf(frame));
  }

  /** `left`: it announced that; calls that it has not taken end as not served. */
  peerLost(peer: string, reason: string, left: boolean): void {
    for (const call of this.#calls.values()) {
      if (call.to === peer && (call.taken || !left)) call.lost(reason);
    }
  }

  lost(reason: string): void {
    for (const call of this.#calls.values()) call.lost(reason);
  }

  resync(): void {
    for (const call of this.#calls.values()) call.resync();
  }

  tick(): void {
    for (const call of this.#calls.values()) call.tick();
  }

  /** The bundles with these numbers never left. */
  disconnected(unsent: ReadonlySet<number>): void {
    for (const call of this.#calls.values()) {
      if (unsent.has(call.bundle)) call.notSent('the bus lost its connection before the call was sent');
      else call.disconnected();
    }
  }

  close(): Promise<void> {
    return this.#noResponders.close();
  }

  /**
   * Requests that certainly reached no peer. The messaging system reports them unsigned, on subjects that no client may publish
   * to (docs/cluster.md); the same elsewhere is not believed.
   */
  #noResponder({ subject, noResponders }: WireMessage): void {
    if (!noResponders) return;
    const bundle = Number(subject.split('.').at(-1));
    for (const call of this.#calls.values()) if (call.bundle === bundle) call.notSent('no node serves what was called');
  }
}

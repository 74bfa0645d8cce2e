import type { Random } from '../../model/random.ts';
import type { BusCallOptions, Payload } from '../bus.ts';
import { noResponderSubject } from '../subjects.ts';
import type { Wire, WireMessage } from '../wire.ts';
import type { CallTransport } from './call-transport.ts';
import { Calls } from './calls.ts';
import { type CallId, FRAME, keyOf, plainFrame } from './frames.ts';
import { OutgoingCall } from './outgoing-call.ts';

export class OutgoingCalls extends Calls<OutgoingCall> {
  /** Random, so that the calls of different callers have different ids. */
  readonly #family: number;
  #lastNumber: number;
  readonly #noResponders: { close(): Promise<void> };
  /** Cancellations to send after the next reconnect. */
  readonly #unsent: (CallId & { readonly peer: string; readonly frame: Buffer })[] = [];

  constructor(transport: CallTransport, wire: Wire, peer: string, random: Random) {
    super(transport);
    this.#noResponders = wire.subscribe(noResponderSubject(peer, '*'), (message) => this.#noResponder(message));
    this.#family = Number.parseInt(random.hex(4), 16);
    this.#lastNumber = Number.parseInt(random.hex(4), 16);
  }

  begin(subject: string, payload: Payload, options: BusCallOptions): OutgoingCall {
    // An unsigned 32-bit number, never 0.
    this.#lastNumber = (this.#lastNumber + 1) >>> 0 || 1;
    const id = { family: this.#family, number: this.#lastNumber };
    const call = new OutgoingCall(this, id, subject, options);
    this.open.set(keyOf(call), call);
    call.start(payload);
    return call;
  }

  protected unknown(id: CallId, from: string, kind: number): void {
    if (kind === FRAME.gone || kind === FRAME.cancel || kind === FRAME.unserved) return;
    this.transport.sender.transmit(from, 'serving', id, plainFrame(FRAME.cancel, 'the caller has left'));
  }

  /** `left`: the peer announced its leaving; the calls that it has not accepted end by its answer as not served. */
  peerLost(peer: string, reason: string, left: boolean): void {
    for (const call of this.open.values()) {
      if (call.peer === peer && (call.accepted || !left)) call.lost(reason);
    }
  }

  lost(reason: string): void {
    for (const call of this.open.values()) call.lost(reason);
  }

  /** `unsent`: numbers of the bundles that were never sent. */
  disconnected(unsent: ReadonlySet<number>): void {
    for (const call of this.open.values()) {
      if (unsent.has(call.bundle)) call.notSent('the bus lost its connection before the call was sent');
      else call.disconnected();
    }
  }

  override ended(call: OutgoingCall): void {
    super.ended(call);
    const { family, number, peer, unsent } = call;
    if (unsent !== null) this.#unsent.push({ family, number, peer, frame: unsent });
  }

  override resync(): void {
    super.resync();
    for (const call of this.#unsent.splice(0)) this.transport.sender.transmit(call.peer, 'serving', call, call.frame);
  }

  close(): Promise<void> {
    return this.#noResponders.close();
  }

  /**
   * Ends the requests of a bundle that certainly reached no peer. The messaging system reports it unsigned, on subjects to which
   * no client may publish (docs/cluster.md); reports on other subjects are ignored.
   */
  #noResponder({ subject, noResponders }: WireMessage): void {
    if (!noResponders) return;
    const bundle = Number(subject.split('.').at(-1));
    for (const call of this.open.values()) if (call.bundle === bundle) call.notSent('no node serves what was called');
  }
}

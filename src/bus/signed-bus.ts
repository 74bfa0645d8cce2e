import { type Clock, MAX_SKEW_MS } from '../model/clock.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Random } from '../model/random.ts';
import type { Logger } from '../telemetry/logger.ts';
import type {
  Bus,
  BusCall,
  BusCallOptions,
  BusEvent,
  BusStatus,
  Payload,
  Registration,
  ServeOptions,
  ServingHandler,
  Subscriber,
} from './bus.ts';
import { CallTransport } from './calls/call-transport.ts';
import { FrameSender } from './calls/frame-sender.ts';
import { Entries, FRAME, FRAME_OVERHEAD, hintMessage } from './calls/frames.ts';
import { IncomingCalls } from './calls/incoming-calls.ts';
import { OutgoingCalls } from './calls/outgoing-calls.ts';
import { bundleSubject } from './subjects.ts';
import type { KeyRing } from './trust/key-ring.ts';
import { ReplayWindow, Signer } from './trust/signer.ts';
import type { Wire, WireChange, WireMessage } from './wire.ts';

interface SignedBusDeps {
  readonly wire: Wire;
  readonly keys: KeyRing;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

const REFUSAL_REPORT_INTERVAL_MS = 1_000;
/** How long calls survive an outage; the cluster declares a peer lost after the same time without heartbeats. */
const OUTAGE_MS = 1_500;

/** Implements `Bus` on a `Wire`: verifies each message and dispatches it to a call or subscriber. */
export class SignedBus implements Bus {
  readonly peer: string;
  readonly #deps: SignedBusDeps;
  readonly #signer: Signer;
  readonly #transport: CallTransport;
  readonly #outgoing: OutgoingCalls;
  readonly #incoming: IncomingCalls;
  readonly #seen = new ReplayWindow(2 * MAX_SKEW_MS);
  readonly #listeners = new Set<(event: BusEvent) => void>();
  readonly #sender: FrameSender;
  readonly #own: readonly { close(): Promise<void> }[];
  #stopOutage: (() => void) | null = null;
  #slowConsumers = 0;
  #refused = 0;
  #refusalReportedAt = Number.NEGATIVE_INFINITY;
  #closed: Promise<void> | null = null;

  constructor(deps: SignedBusDeps) {
    const { wire, keys, clock, random, logger } = deps;
    this.#deps = deps;
    this.peer = random.hex(8);
    this.#signer = new Signer(this.peer, keys, clock);
    this.#sender = new FrameSender(wire, this.#signer);
    this.#transport = new CallTransport(
      wire,
      clock,
      this.#sender,
      (subject) => this.#slow(subject, { call: true }),
      (info) => Math.min(this.#outgoing.tick(info), this.#incoming.tick(info)),
    );
    this.#outgoing = new OutgoingCalls(this.#transport, wire, this.peer, random);
    this.#incoming = new IncomingCalls(this.#transport, logger);
    wire.onChange((change) => this.#changed(change));
    this.#own = [wire.subscribe(bundleSubject(this.peer), (message) => this.#onBundle(message)), this.#outgoing];
  }

  get connected(): boolean {
    return this.#deps.wire.connected;
  }

  get status(): BusStatus {
    return {
      ...this.#deps.wire.status,
      calls: this.#outgoing.size,
      serving: this.#incoming.size,
      refused: this.#refused,
      slowConsumers: this.#slowConsumers,
    };
  }

  publish(subject: string, payload: Payload): void {
    const message = hintMessage(payload);
    if (message.length > this.#transport.chunkBytes + FRAME_OVERHEAD) {
      throw new GatewayError('TOO_LARGE', `a hint on ${subject} has ${message.length} bytes`, { outcome: 'NOT_SENT' });
    }
    this.#sender.publish(subject, message);
  }

  subscribe(subject: string, subscriber: Subscriber): Registration {
    let closed = false;
    const seen = new ReplayWindow(2 * MAX_SKEW_MS);
    const deliver = (message: WireMessage): void => {
      const signed = closed ? null : this.#open(message, seen);
      if (signed === null || signed.frame[0] !== FRAME.hint) return;
      try {
        subscriber(signed.frame.subarray(1), signed.from, message.subject);
      } catch (error) {
        this.#deps.logger.error('bus_subscriber_failed', { subject, error });
      }
    };
    const subscription = this.#deps.wire.subscribe(subject, deliver);
    const close = (): void => {
      closed = true;
      void subscription.close();
    };
    return { close };
  }

  serve(name: string, handler: ServingHandler, options: ServeOptions = {}): Registration {
    return this.#incoming.serve(`${name}.${this.peer}`, handler, options.concurrency);
  }

  call(name: string, payload: Payload, options: BusCallOptions): BusCall {
    return this.#outgoing.begin(`${name}.${options.to}`, payload, options);
  }

  peerLost(peer: string, reason: string, left = false): void {
    this.#outgoing.peerLost(peer, reason, left);
    this.#incoming.peerLost(peer, reason);
  }

  onEvent(listener: (event: BusEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const reason = 'this node leaves the bus';
    this.#stopOutage?.();
    this.#outgoing.lost(reason);
    this.#incoming.abandonAll('the node that served the call leaves the bus');
    // Until the subscriptions are drained, requests of peers that do not know yet arrive and get an answer.
    await Promise.all(this.#own.map((subscription) => subscription.close()));
    // Calls begun meanwhile get no answer.
    this.#outgoing.lost(reason);
    this.#transport.stop();
    this.#sender.flush();
    await this.#deps.wire.close();
  }

  #onBundle(message: WireMessage): void {
    const signed = this.#open(message, this.#seen);
    if (signed === null) return;
    const { from } = signed;
    const entries = new Entries(signed.frame);
    while (entries.next()) {
      if (entries.end === 'caller') this.#outgoing.take(entries, from, entries);
      else if (entries.end === 'serving') this.#incoming.take(entries, from, entries);
      else this.#incoming.onRequest(entries, from);
    }
    if (!entries.isComplete) this.#refuse(message.subject, 'the lengths of its entries do not add up');
  }

  #open(message: WireMessage, seen: ReplayWindow): { readonly from: string; readonly frame: Buffer } | null {
    const signed = this.#signer.open(message.payload, message.subject, seen);
    if (typeof signed === 'object') {
      return signed.frame.length > 0 ? signed : null;
    }
    this.#refuse(message.subject, signed);
    return null;
  }

  #changed(change: WireChange): void {
    if (change.type === 'slow_consumer') {
      this.#slow(change.subject);
      return;
    }
    if (change.type === 'disconnected') {
      this.#outgoing.disconnected(this.#sender.dropQueued());
      this.#stopOutage ??= this.#deps.clock.after(OUTAGE_MS, () => {
        this.#stopOutage = null;
        this.#outgoing.lost('the bus has lost its connection');
      });
    } else {
      this.#stopOutage?.();
      this.#stopOutage = null;
      this.#outgoing.resync();
      this.#incoming.resync();
    }
    this.#emit(change);
  }

  #slow(subject: string, whose: { readonly call?: true } = {}): void {
    this.#slowConsumers++;
    this.#emit({ type: 'slow_consumer', subject, ...whose });
  }

  #refuse(subject: string, reason: string): void {
    this.#refused++;
    const now = this.#deps.clock.now();
    if (now - this.#refusalReportedAt < REFUSAL_REPORT_INTERVAL_MS) return;
    this.#refusalReportedAt = now;
    this.#emit({ type: 'refused', subject, reason });
  }

  #emit(event: BusEvent): void {
    for (const listener of this.#listeners) listener(event);
  }
}

import type { Clock } from '../model/clock.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Random } from '../model/random.ts';
import type { Logger } from '../telemetry/logger.ts';
import type {
  Bus,
  BusCall,
  BusEvent,
  BusStatus,
  CallOptions,
  Payload,
  Registration,
  ServeOptions,
  ServingHandler,
  SubscribeOptions,
  Subscriber,
} from './bus.ts';
import type { CallGround } from './call-ground.ts';
import { FRAME, FRAME_OVERHEAD, plainFrame, readAck, readData, readRequest } from './frames.ts';
import { IncomingCall } from './incoming-call.ts';
import type { KeyRing } from './key-ring.ts';
import { OutgoingCall } from './outgoing-call.ts';
import { ReplayWindow } from './replay-window.ts';
import { MAX_SKEW_MS, Signer } from './signer.ts';
import { callSubject, callSubjects } from './subjects.ts';
import { SubscriptionQueue } from './subscription-queue.ts';
import type { Wire, WireChange, WireMessage } from './wire.ts';

export interface SignedBusDeps {
  readonly wire: Wire;
  readonly keys: KeyRing;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Longest payload of a call, in either direction. Default 64 MiB. */
  readonly maxPayloadBytes?: number;
}

const CHUNK_BYTES = 512 * 1024;
const MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;
const CONCURRENCY = 256;
const TICK_MS = 1_000;
/** Calls under way live through an outage of this length. Their servers count as lost after as long without heartbeats. */
const OUTAGE_MS = 1_500;
/** What is refused is counted, and told of once in this time. */
const REFUSED_EVERY_MS = 1_000;

/** The bus on any messaging system: signatures, calls, bounded subscriptions. See `Bus`. */
export class SignedBus implements Bus {
  readonly peer: string;
  readonly #deps: SignedBusDeps;
  readonly #signer: Signer;
  readonly #ground: CallGround;
  readonly #calls = new Map<string, OutgoingCall>();
  readonly #served = new Map<string, IncomingCall>();
  readonly #seen = new ReplayWindow(2 * MAX_SKEW_MS);
  readonly #listeners = new Set<(event: BusEvent) => void>();
  readonly #startedAt: number;
  #stopTick: (() => void) | null = null;
  #stopOutage: (() => void) | null = null;
  #refused = 0;
  #refusedToldAt = Number.NEGATIVE_INFINITY;
  #slowConsumers = 0;
  #closed: Promise<void> | null = null;

  constructor(deps: SignedBusDeps) {
    const { wire, keys, clock, random } = deps;
    this.#deps = deps;
    this.peer = random.hex(8);
    this.#signer = new Signer(this.peer, keys, clock);
    this.#startedAt = clock.now();
    this.#ground = {
      peer: this.peer,
      clock,
      random,
      get chunkBytes() {
        return Math.min(CHUNK_BYTES, wire.maxPayload - FRAME_OVERHEAD);
      },
      maxBytes: deps.maxPayloadBytes ?? MAX_PAYLOAD_BYTES,
      get connected() {
        return wire.status.state === 'connected';
      },
      transmit: (subject, frame, reply) => this.#transmit(subject, frame, reply),
      slow: (subject) => this.#slow(subject, 1),
    };
    wire.onChange((change) => this.#changed(change));
    wire.subscribe(callSubjects(this.peer), (message) => this.#onFrame(message));
  }

  get status(): BusStatus {
    return {
      ...this.#deps.wire.status,
      calls: this.#calls.size,
      serving: this.#served.size,
      refused: this.#refused,
      slowConsumers: this.#slowConsumers,
    };
  }

  publish(subject: string, payload: Payload): void {
    const frame = plainFrame(FRAME.hint, payload);
    if (frame.length > this.#ground.chunkBytes + FRAME_OVERHEAD) {
      throw new GatewayError('TOO_LARGE', `a hint on ${subject} has ${frame.length} bytes`, { outcome: 'NOT_SENT' });
    }
    this.#transmit(subject, frame);
  }

  subscribe(subject: string, subscriber: Subscriber, options: SubscribeOptions = {}): Registration {
    const queue = new SubscriptionQueue(
      subscriber,
      (count) => {
        this.#slow(subject, count);
        options.onDropped?.(count);
      },
      (error) => this.#deps.logger.error('bus_subscriber_failed', { subject, error }),
    );
    const seen = new ReplayWindow(2 * MAX_SKEW_MS);
    const deliver = (message: WireMessage): void => {
      const signed = this.#open(message, seen);
      if (signed !== null && signed.frame[0] === FRAME.hint)
        queue.push(signed.frame.subarray(1), signed.from, message.subject);
    };
    const subscription = this.#deps.wire.subscribe(subject, deliver, options.queue);
    return {
      close: () => {
        void subscription.close();
        queue.close();
      },
    };
  }

  serve(subject: string, handler: ServingHandler, options: ServeOptions = {}): Registration {
    const { concurrency = CONCURRENCY, queue } = options;
    const running = new Set<IncomingCall>();
    const seen = new ReplayWindow(2 * MAX_SKEW_MS);
    const deliver = (message: WireMessage): void => {
      const signed = this.#open(message, seen);
      if (signed === null || signed.frame[0] !== FRAME.request) return;
      const request = readRequest(signed.frame);
      if (request === null || this.#served.has(request.call)) return;
      // A request that somebody recorded could be sent to a member of the group that has not seen it, or to a process that
      // has just started: those are asked after. Where the subject names us, it can have been meant for nobody else.
      const young = this.#deps.clock.now() - this.#startedAt < 2 * MAX_SKEW_MS;
      const handshake = request.offered || queue !== undefined || (young && !message.subject.includes(this.peer));
      const call = new IncomingCall(this.#ground, message.subject, signed.from, request, handshake, {
        begin: (begun) => this.#begin(begun, handler),
        ended: (ended) => {
          running.delete(ended);
          this.#served.delete(ended.id);
        },
      });
      this.#served.set(call.id, call);
      this.#tickLater();
      if (request.total > this.#ground.maxBytes) {
        call.fail(new GatewayError('TOO_LARGE', `a request of ${request.total} bytes`, { outcome: 'REFUSED' }));
      } else if (running.size >= concurrency) {
        call.fail(new GatewayError('OVERLOADED', `${concurrency} calls are being served on ${subject}`));
      } else {
        running.add(call);
        call.start();
      }
    };
    const subscription = this.#deps.wire.subscribe(subject, deliver, queue);
    return { close: () => void subscription.close() };
  }

  call(subject: string, payload: Payload, options: CallOptions): BusCall {
    const call = new OutgoingCall(this.#ground, subject, options, (ended) => this.#calls.delete(ended.id));
    this.#calls.set(call.id, call);
    this.#tickLater();
    call.start(payload);
    return call;
  }

  peerLost(peer: string, reason: string): void {
    for (const call of [...this.#calls.values()]) if ((call.takenBy ?? call.to) === peer) call.lost(reason);
    for (const serving of [...this.#served.values()]) if (serving.from === peer) serving.cancel(reason);
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
    this.#stopTick?.();
    this.#stopOutage?.();
    for (const call of [...this.#calls.values()]) call.lost('this node leaves the bus');
    for (const serving of [...this.#served.values()]) serving.leave('the node that served the call leaves the bus');
    await this.#deps.wire.close();
  }

  #begin(call: IncomingCall, handler: ServingHandler): void {
    const failed = (error: unknown): void => {
      if (!(error instanceof GatewayError))
        this.#deps.logger.error('bus_handler_failed', { subject: call.subject, error });
      call.fail(error instanceof GatewayError ? error : new GatewayError('INTERNAL', 'the handler of the call failed'));
    };
    try {
      handler(call)?.then(() => failed(new GatewayError('INTERNAL', 'the handler ended without an answer')), failed);
    } catch (error) {
      failed(error);
    }
  }

  #onFrame(message: WireMessage): void {
    const words = message.subject.split('.');
    const id = words[4]!;
    if (message.noResponders) {
      this.#calls.get(id)?.notSent('nobody serves what was called');
      return;
    }
    const signed = this.#open(message, this.#seen);
    if (signed === null) return;
    if (words[3] === 'c') this.#toCaller(id, signed.from, signed.frame);
    else this.#toServing(id, signed.from, signed.frame);
  }

  #toCaller(id: string, from: string, frame: Buffer): void {
    const call = this.#calls.get(id);
    const kind = frame[0];
    if (call === undefined) {
      // Whoever still works for it is told to stop.
      if (kind !== FRAME.gone && kind !== FRAME.cancel)
        this.#transmit(callSubject(from, 's', id), plainFrame(FRAME.cancel, Buffer.from('the caller has left')));
    } else if (kind === FRAME.data) {
      const data = readData(frame);
      if (data !== null) call.data(data, from);
    } else if (kind === FRAME.ack) {
      const ack = readAck(frame);
      if (ack !== null) call.ack(ack, from);
    } else if (kind === FRAME.accept) call.accepted(from);
    else if (kind === FRAME.gone && (call.takenBy ?? from) === from) call.gone(frame.toString('utf8', 1));
  }

  #toServing(id: string, from: string, frame: Buffer): void {
    const serving = this.#served.get(id);
    const kind = frame[0];
    if (serving === undefined || serving.from !== from) {
      if (serving === undefined && (kind === FRAME.data || kind === FRAME.ack))
        this.#transmit(callSubject(from, 'c', id), plainFrame(FRAME.gone));
    } else if (kind === FRAME.data) {
      const data = readData(frame);
      if (data !== null) serving.data(data);
    } else if (kind === FRAME.ack) {
      const ack = readAck(frame);
      if (ack !== null) serving.ack(ack);
    } else if (kind === FRAME.cancel) serving.cancel(frame.toString('utf8', 1));
  }

  #open(message: WireMessage, seen: ReplayWindow): { readonly from: string; readonly frame: Buffer } | null {
    const signed = this.#signer.open(message.payload, message.subject, seen);
    if (typeof signed === 'object') return signed.frame.length > 0 ? signed : null;
    this.#refused++;
    const now = this.#deps.clock.now();
    if (now - this.#refusedToldAt >= REFUSED_EVERY_MS) {
      this.#refusedToldAt = now;
      this.#tell({ type: 'refused', subject: message.subject, reason: signed });
    }
    return null;
  }

  #transmit(subject: string, frame: Buffer, reply?: string): void {
    if (!this.#ground.connected) return;
    this.#signer.sign(frame, subject);
    this.#deps.wire.publish(subject, frame, reply === undefined ? {} : { reply });
  }

  #changed(change: WireChange): void {
    if (change.type === 'slow_consumer') {
      this.#slow(change.subject, 0);
      return;
    }
    if (change.type === 'disconnected') {
      for (const call of [...this.#calls.values()]) call.disconnected();
      this.#stopOutage ??= this.#deps.clock.after(OUTAGE_MS, () => this.#outage());
    } else {
      this.#stopOutage?.();
      this.#stopOutage = null;
      for (const call of [...this.#calls.values()]) call.resync();
      for (const serving of [...this.#served.values()]) serving.resync();
    }
    this.#tell(change);
  }

  #outage(): void {
    this.#stopOutage = null;
    for (const call of [...this.#calls.values()]) call.lost('the bus has lost its connection');
  }

  #slow(subject: string, dropped: number): void {
    this.#slowConsumers++;
    this.#tell({ type: 'slow_consumer', subject, dropped });
  }

  #tell(event: BusEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  /** Runs while there are calls. */
  #tickLater(): void {
    this.#stopTick ??= this.#deps.clock.after(TICK_MS, () => {
      this.#stopTick = null;
      for (const call of [...this.#calls.values()]) call.tick();
      for (const serving of [...this.#served.values()]) serving.tick();
      if (this.#calls.size + this.#served.size > 0) this.#tickLater();
    });
  }
}

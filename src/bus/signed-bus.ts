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
import type { CallGround } from './calls/call-ground.ts';
import { type CallId, callOf } from './calls/call-id.ts';
import { CallTable } from './calls/call-table.ts';
import { TICK_MS } from './calls/deadline.ts';
import { DueQueue } from './calls/due-queue.ts';
import { Entries } from './calls/entries.ts';
import { FramePost } from './calls/frame-post.ts';
import {
  FRAME,
  FRAME_OVERHEAD,
  type Framed,
  framed,
  hintMessage,
  plainFrame,
  type RequestFrame,
  readAck,
  readData,
  readRequest,
  subjectAt,
  subjectOf,
  wordsOf,
} from './calls/frames.ts';
import { IncomingCall, type IncomingEnds, QUIET_MS } from './calls/incoming-call.ts';
import { OutgoingCall, TAKE_MS } from './calls/outgoing-call.ts';
import { Unheard } from './calls/unheard.ts';
import { bundleSubject, callSubjects } from './subjects.ts';
import { SubscriptionQueue } from './subscription-queue.ts';
import type { KeyRing } from './trust/key-ring.ts';
import { Refused } from './trust/refused.ts';
import { ReplayWindow } from './trust/replay-window.ts';
import { MAX_SKEW_MS, Signer } from './trust/signer.ts';
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
/** Calls under way live through an outage of this length. Their servers count as lost after as long without heartbeats. */
const OUTAGE_MS = 1_500;

interface Serving {
  readonly ends: IncomingEnds;
  readonly concurrency: number;
  /** Calls that are being served. */
  running: number;
}

/** The bus on any messaging system: signatures, calls, bounded subscriptions. See `Bus`. */
export class SignedBus implements Bus {
  readonly peer: string;
  readonly #deps: SignedBusDeps;
  readonly #signer: Signer;
  readonly #ground: CallGround;
  readonly #calls = new CallTable<OutgoingCall>();
  readonly #served = new CallTable<IncomingCall>();
  readonly #callEnded = (call: OutgoingCall): void => this.#calls.delete(call);
  readonly #seen = new ReplayWindow(2 * MAX_SKEW_MS);
  readonly #listeners = new Set<(event: BusEvent) => void>();
  readonly #post: FramePost;
  readonly #serving = new Map<string, Serving>();
  readonly #unheard: Unheard;
  readonly #refused: Refused;
  /** What is addressed to this peer comes by these. */
  readonly #own: readonly { close(): Promise<void> }[];
  readonly #startedAt: number;
  #stopTick: (() => void) | null = null;
  #stopOutage: (() => void) | null = null;
  #slowConsumers = 0;
  #closed: Promise<void> | null = null;

  constructor(deps: SignedBusDeps) {
    const { wire, keys, clock, random } = deps;
    this.#deps = deps;
    this.peer = random.hex(8);
    this.#signer = new Signer(this.peer, keys, clock);
    this.#post = new FramePost(wire, this.#signer, random);
    const post = this.#post;
    this.#startedAt = clock.now();
    this.#refused = new Refused(clock, (subject, reason) => this.#tell({ type: 'refused', subject, reason }));
    this.#ground = {
      peer: this.peer,
      clock,
      get chunkBytes() {
        return Math.min(CHUNK_BYTES, wire.maxPayload - FRAME_OVERHEAD);
      },
      maxBytes: deps.maxPayloadBytes ?? MAX_PAYLOAD_BYTES,
      get connected() {
        return wire.connected;
      },
      family: post.family,
      nextCall: () => post.nextCall(),
      transmit: (peer, end, call, frame) => post.transmit(peer, end, call, frame),
      request: (peer, subject, call, head, pieces, bytes) => post.request(peer, subject, call, head, pieces, bytes),
      answer: (peer, call, part, pieces) => post.answer(peer, call, part, pieces),
      untaken: new DueQueue(clock, TAKE_MS, (call) => call.nobodyTookIt()),
      quiet: new DueQueue(clock, QUIET_MS, (call) => call.accept()),
      slow: (subject) => this.#slow(subject, 1, { call: true }),
    };
    wire.onChange((change) => this.#changed(change));
    this.#unheard = new Unheard(wire, this.peer, this.#calls);
    this.#own = [
      wire.subscribe(bundleSubject(this.peer), (message) => this.#onBundle(message)),
      wire.subscribe(callSubjects(this.peer), (message) => this.#onFrame(message)),
      this.#unheard,
    ];
  }

  get status(): BusStatus {
    return {
      ...this.#deps.wire.status,
      calls: this.#calls.size,
      serving: this.#served.size,
      refused: this.#refused.count,
      slowConsumers: this.#slowConsumers,
    };
  }

  publish(subject: string, payload: Payload): void {
    const message = hintMessage(payload);
    if (message.length > this.#ground.chunkBytes + FRAME_OVERHEAD) {
      throw new GatewayError('TOO_LARGE', `a hint on ${subject} has ${message.length} bytes`, { outcome: 'NOT_SENT' });
    }
    this.#post.publish(subject, message);
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
    const close = (): void => {
      void subscription.close();
      queue.close();
    };
    return { close };
  }

  serve(subject: string, handler: ServingHandler, options: ServeOptions = {}): Registration {
    const { concurrency = CONCURRENCY, queue } = options;
    const ends: IncomingEnds = {
      begin: (call) => this.#begin(call, handler),
      ended: (call) => {
        if (call.counts) serving.running--;
        this.#served.delete(call);
      },
    };
    const serving: Serving = { ends, concurrency, running: 0 };
    const seen = new ReplayWindow(2 * MAX_SKEW_MS);
    const deliver = (message: WireMessage): void => {
      const signed = this.#open(message, seen);
      const request = signed === null ? null : readRequest(framed(signed.frame), signed.frame.length);
      if (request === null) return;
      // A request that somebody recorded could be sent to a member of the group that has not seen it, or to a process that
      // has just started: those are asked after. Where the subject names us, it can have been meant for nobody else.
      const young = this.#deps.clock.now() - this.#startedAt < 2 * MAX_SKEW_MS;
      const handshake = request.offered || queue !== undefined || (young && !message.subject.includes(this.peer));
      this.#request(message.subject, signed!.from, request, serving, handshake);
    };
    if (!this.#serving.has(subject)) this.#serving.set(subject, serving);
    const subscription = this.#deps.wire.subscribe(subject, deliver, queue);
    const close = (): void => {
      if (this.#serving.get(subject) === serving) this.#serving.delete(subject);
      void subscription.close();
    };
    return { close };
  }

  call(subject: string, payload: Payload, options: CallOptions): BusCall {
    const call = new OutgoingCall(this.#ground, subject, options, this.#callEnded);
    this.#calls.add(call);
    this.#tickLater();
    call.start(payload);
    return call;
  }

  peerLost(peer: string, reason: string, left = false): void {
    this.#post.forget(peer);
    for (const call of this.#calls.values()) {
      if ((left ? call.takenBy : (call.takenBy ?? call.to)) === peer) call.lost(reason);
    }
    // Where only this way is cut it lives, hears us, and would wait for ever.
    const givenUp = `the node that served the call gave it up: ${reason}`;
    for (const serving of this.#served.values()) if (serving.from === peer) serving.leave(givenUp);
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
    for (const call of this.#calls.values()) call.lost('this node leaves the bus');
    for (const serving of this.#served.values()) serving.leave('the node that served the call leaves the bus');
    // What had left before others knew arrives yet, and is answered: nobody serves it.
    await Promise.all(this.#own.map((subscription) => subscription.close()));
    this.#post.flush();
    await this.#deps.wire.close();
  }

  #begin(call: IncomingCall, handler: ServingHandler): void {
    const failed = (error: unknown): void => {
      if (!(error instanceof GatewayError))
        this.#deps.logger.error('bus_handler_failed', { subject: call.subject, error });
      call.fail(error instanceof GatewayError ? error : new GatewayError('INTERNAL', 'the handler of the call failed'));
    };
    try {
      handler(call)?.then(() => {
        // An error costs more to make than a short call.
        if (!call.answered) failed(new GatewayError('INTERNAL', 'the handler ended without an answer'));
      }, failed);
    } catch (error) {
      failed(error);
    }
  }

  #onBundle(message: WireMessage): void {
    const signed = this.#open(message, this.#seen);
    if (signed === null) return;
    const { from } = signed;
    const entries = new Entries(signed.frame);
    while (entries.next()) {
      if (entries.end === 'caller') this.#toCaller(entries, from, entries);
      else if (entries.end === 'serving') this.#toServing(entries, from, entries);
      else this.#addressed(entries, from);
    }
    if (!entries.whole) this.#refused.add(message.subject, 'it is cut otherwise than it says');
  }

  #onFrame(message: WireMessage): void {
    const [, , , end, id] = message.subject.split('.') as [string, string, string, string, string];
    const signed = this.#open(message, this.#seen);
    if (signed === null) return;
    const call = callOf(id);
    if (call === null) this.#refused.add(message.subject, 'no call has such an id');
    else if (end === 'c') this.#toCaller(call, signed.from, framed(signed.frame));
    else this.#toServing(call, signed.from, framed(signed.frame));
  }

  /** A request that came to this peer, and to no subject's subscribers. */
  #addressed(entry: Entries, from: string): void {
    const subject = subjectOf(entry);
    const request = readRequest(entry, subjectAt(entry));
    const serving = this.#serving.get(subject);
    if (request !== null && serving !== undefined) this.#request(subject, from, request, serving, request.offered);
    else if (request === null) this.#unserved(entry, from, 'the node speaks another version');
    else this.#unserved(request, from, 'nobody serves what was called');
  }

  #unserved(id: CallId, from: string, reason: string): void {
    this.#ground.transmit(from, 'caller', id, plainFrame(FRAME.unserved, Buffer.from(reason)));
  }

  #request(subject: string, from: string, request: RequestFrame, serving: Serving, handshake: boolean): void {
    if (this.#served.get(request.family, request.number) !== undefined) return;
    if (this.#closed !== null) {
      this.#unserved(request, from, 'the node leaves the bus');
      return;
    }
    const call = new IncomingCall(this.#ground, subject, from, request, handshake, serving.ends);
    this.#served.add(call);
    this.#tickLater();
    if (request.total > this.#ground.maxBytes) {
      call.fail(new GatewayError('TOO_LARGE', `a request of ${request.total} bytes`, { outcome: 'REFUSED' }));
    } else if (serving.running >= serving.concurrency) {
      call.fail(new GatewayError('OVERLOADED', `${serving.concurrency} calls are being served on ${subject}`));
    } else {
      serving.running++;
      call.counts = true;
      call.start();
    }
  }

  #toCaller(id: CallId, from: string, frame: Framed): void {
    const call = this.#calls.get(id.family, id.number);
    const kind = frame.bytes[frame.from];
    if (call === undefined) {
      // Whoever still works for it is told to stop.
      if (kind !== FRAME.gone && kind !== FRAME.cancel && kind !== FRAME.unserved)
        this.#ground.transmit(from, 'serving', id, plainFrame(FRAME.cancel, Buffer.from('the caller has left')));
    } else if (kind === FRAME.data) {
      const data = readData(frame);
      if (data !== null) call.data(data, from);
    } else if (kind === FRAME.ack) {
      const ack = readAck(frame);
      if (ack !== null) call.ack(ack, from);
    } else if (kind === FRAME.accept) call.accepted(from);
    else if (kind === FRAME.unserved && call.to === from) call.notSent(wordsOf(frame));
    else if (kind === FRAME.gone && (call.takenBy ?? from) === from) call.gone(wordsOf(frame));
  }

  #toServing(id: CallId, from: string, frame: Framed): void {
    const serving = this.#served.get(id.family, id.number);
    const kind = frame.bytes[frame.from];
    if (serving === undefined || serving.from !== from) {
      if (serving === undefined && (kind === FRAME.data || kind === FRAME.ack))
        this.#ground.transmit(from, 'caller', id, plainFrame(FRAME.gone));
    } else if (kind === FRAME.data) {
      const data = readData(frame);
      if (data !== null) serving.data(data);
    } else if (kind === FRAME.ack) {
      const ack = readAck(frame);
      if (ack !== null) serving.ack(ack);
    } else if (kind === FRAME.cancel) serving.cancel(wordsOf(frame));
  }

  #open(message: WireMessage, seen: ReplayWindow): { readonly from: string; readonly frame: Buffer } | null {
    const signed = this.#signer.open(message.payload, message.subject, seen);
    if (typeof signed === 'object') {
      if (signed.readsBundles) this.#post.reads(signed.from);
      return signed.frame.length > 0 ? signed : null;
    }
    this.#refused.add(message.subject, signed);
    return null;
  }

  #changed(change: WireChange): void {
    if (change.type === 'slow_consumer') {
      this.#slow(change.subject, 0);
      return;
    }
    if (change.type === 'disconnected') {
      this.#unheard.lost(this.#post.lost());
      this.#stopOutage ??= this.#deps.clock.after(OUTAGE_MS, () => this.#outage());
    } else {
      this.#stopOutage?.();
      this.#stopOutage = null;
      for (const call of this.#calls.values()) call.resync();
      for (const serving of this.#served.values()) serving.resync();
    }
    this.#tell(change);
  }

  #outage(): void {
    this.#stopOutage = null;
    for (const call of this.#calls.values()) call.lost('the bus has lost its connection');
  }

  #slow(subject: string, dropped: number, whose: { readonly call?: true } = {}): void {
    this.#slowConsumers++;
    this.#tell({ type: 'slow_consumer', subject, dropped, ...whose });
  }

  #tell(event: BusEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  /** Runs while there are calls. */
  #tickLater(): void {
    this.#stopTick ??= this.#deps.clock.after(TICK_MS, () => {
      this.#stopTick = null;
      for (const call of this.#calls.values()) call.tick();
      for (const serving of this.#served.values()) serving.tick();
      if (this.#calls.size + this.#served.size > 0) this.#tickLater();
    });
  }
}

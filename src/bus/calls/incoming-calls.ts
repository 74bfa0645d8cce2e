import { ByNumber } from '../../model/by-number.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Registration, ServingHandler } from '../bus.ts';
import { type CallTransport, MAX_PAYLOAD_BYTES } from './call-transport.ts';
import {
  type CallId,
  FRAME,
  type Framed,
  keyOf,
  plainFrame,
  type RequestFrame,
  readAck,
  readData,
  readRequest,
  subjectAt,
  subjectOf,
  wordsOf,
} from './frames.ts';
import { IncomingCall, type IncomingEnds } from './incoming-call.ts';

const CONCURRENCY = 256;

interface ServedSubject {
  readonly ends: IncomingEnds;
  readonly concurrency: number;
  running: number;
}

/** The serving ends of all calls to this peer. */
export class IncomingCalls {
  readonly #transport: CallTransport;
  readonly #logger: Logger;
  readonly #began: () => void;
  readonly #calls = new ByNumber<IncomingCall>();
  readonly #subjects = new Map<string, ServedSubject>();
  #leaving = false;

  /** `began`: calls must be ticked. */
  constructor(transport: CallTransport, logger: Logger, began: () => void) {
    this.#transport = transport;
    this.#logger = logger;
    this.#began = began;
  }

  get size(): number {
    return this.#calls.size;
  }

  /** A call goes to the first that serves its subject. When that is closed, running calls continue. */
  serve(subject: string, handler: ServingHandler, concurrency = CONCURRENCY): Registration {
    const ends: IncomingEnds = {
      begin: (call) => this.#begin(call, handler),
      ended: (call) => {
        if (call.counts) served.running--;
        this.#calls.delete(keyOf(call));
      },
    };
    const served: ServedSubject = { ends, concurrency, running: 0 };
    if (!this.#subjects.has(subject)) this.#subjects.set(subject, served);
    const close = (): void => {
      if (this.#subjects.get(subject) === served) this.#subjects.delete(subject);
    };
    return { close };
  }

  addressed(entry: Framed & CallId, from: string): void {
    const subject = subjectOf(entry);
    const request = readRequest(entry, subjectAt(entry));
    const served = this.#subjects.get(subject);
    if (request !== null && served !== undefined) this.#request(subject, from, request, served);
    else if (request === null) this.#unserved(entry, from, 'the node speaks another version');
    else this.#unserved(request, from, 'no node serves what was called');
  }

  #request(subject: string, from: string, request: RequestFrame, served: ServedSubject): void {
    if (this.#calls.has(keyOf(request))) return;
    if (this.#leaving) {
      this.#unserved(request, from, 'the node leaves the bus');
      return;
    }
    const call = new IncomingCall(this.#transport, subject, from, request, served.ends);
    this.#calls.set(keyOf(call), call);
    this.#began();
    if (request.total > MAX_PAYLOAD_BYTES) {
      call.fail(new GatewayError('TOO_LARGE', `a request of ${request.total} bytes`, { outcome: 'REFUSED' }));
    } else if (served.running >= served.concurrency) {
      call.fail(new GatewayError('OVERLOADED', `${served.concurrency} calls are being served on ${subject}`));
    } else {
      served.running++;
      call.counts = true;
      call.start();
    }
  }

  take(id: CallId, from: string, frame: Framed): void {
    const call = this.#calls.get(keyOf(id));
    const kind = frame.bytes[frame.from];
    if (call === undefined || call.from !== from) {
      if (call === undefined && (kind === FRAME.data || kind === FRAME.ack))
        this.#transport.post.transmit(from, 'caller', id, plainFrame(FRAME.gone));
    } else if (kind === FRAME.data) {
      const data = readData(frame);
      if (data !== null) call.data(data);
    } else if (kind === FRAME.ack) {
      const ack = readAck(frame);
      if (ack !== null) call.ack(ack);
    } else if (kind === FRAME.cancel) call.cancel(wordsOf(frame));
  }

  peerLost(peer: string, reason: string): void {
    // If only its way to us is cut, it receives us and would wait for ever.
    const givenUp = `the node that served the call gave it up: ${reason}`;
    for (const call of this.#calls.values()) if (call.from === peer) call.leave(givenUp, true);
  }

  /** Later calls are answered as not served. */
  leave(reason: string): void {
    this.#leaving = true;
    for (const call of this.#calls.values()) call.leave(reason);
  }

  resync(): void {
    for (const call of this.#calls.values()) call.resync();
  }

  tick(): void {
    for (const call of this.#calls.values()) call.tick();
  }

  #begin(call: IncomingCall, handler: ServingHandler): void {
    const failed = (error: unknown): void => {
      if (!(error instanceof GatewayError)) this.#logger.error('bus_handler_failed', { subject: call.subject, error });
      call.fail(error instanceof GatewayError ? error : new GatewayError('INTERNAL', 'the handler of the call failed'));
    };
    try {
      handler(call)?.then(() => {
        // An error costs more than a short call.
        if (!call.answered) failed(new GatewayError('INTERNAL', 'the handler ended without an answer'));
      }, failed);
    } catch (error) {
      failed(error);
    }
  }

  #unserved(id: CallId, from: string, reason: string): void {
    this.#transport.post.transmit(from, 'caller', id, plainFrame(FRAME.unserved, Buffer.from(reason)));
  }
}

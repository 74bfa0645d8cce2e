import { GatewayError } from '../../model/gateway-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Registration, ServingHandler } from '../bus.ts';
import { type CallTransport, MAX_PAYLOAD_BYTES } from './call-transport.ts';
import { Calls } from './calls.ts';
import {
  type CallId,
  FRAME,
  type Framed,
  keyOf,
  plainFrame,
  type RequestFrame,
  readRequest,
  subjectAt,
  subjectOf,
} from './frames.ts';
import { IncomingCall, type ServedSubject } from './incoming-call.ts';

const CONCURRENCY = 256;

/** The serving ends of all calls to this peer. */
export class IncomingCalls extends Calls<IncomingCall> {
  readonly #logger: Logger;
  readonly #subjects = new Map<string, ServedSubject>();
  #leaving = false;

  constructor(transport: CallTransport, logger: Logger) {
    super(transport);
    this.#logger = logger;
  }

  /** The first registration of a subject gets its calls. After it is closed, in-flight calls continue. */
  serve(subject: string, handler: ServingHandler, concurrency = CONCURRENCY): Registration {
    const served: ServedSubject = { concurrency, running: 0, begin: (call) => this.#begin(call, handler) };
    if (!this.#subjects.has(subject)) this.#subjects.set(subject, served);
    const close = (): void => {
      if (this.#subjects.get(subject) === served) this.#subjects.delete(subject);
    };
    return { close };
  }

  onRequest(entry: Framed & CallId, from: string): void {
    const subject = subjectOf(entry);
    const request = readRequest(entry, subjectAt(entry));
    const served = this.#subjects.get(subject);
    if (request !== null && served !== undefined) this.#request(subject, from, request, served);
    else if (request === null) this.#unserved(entry, from, 'the node speaks another version');
    else this.#unserved(request, from, 'no node serves what was called');
  }

  #request(subject: string, from: string, request: RequestFrame, served: ServedSubject): void {
    if (this.open.has(keyOf(request))) return;
    if (this.#leaving) {
      this.#unserved(request, from, 'the node leaves the bus');
      return;
    }
    const call = new IncomingCall(this, subject, from, request, served);
    this.open.set(keyOf(call), call);
    if (request.total > MAX_PAYLOAD_BYTES) {
      call.fail(new GatewayError('TOO_LARGE', `a request of ${request.total} bytes`, { outcome: 'REFUSED' }));
    } else if (served.running >= served.concurrency) {
      call.fail(new GatewayError('OVERLOADED', `${served.concurrency} calls are being served on ${subject}`));
    } else call.start();
  }

  protected unknown(id: CallId, from: string, kind: number): void {
    if (kind === FRAME.data || kind === FRAME.ack)
      this.transport.sender.transmit(from, 'caller', id, plainFrame(FRAME.gone));
  }

  peerLost(peer: string, reason: string): void {
    // If only the path from that peer to this node is cut, it still receives the reason and need not wait.
    const abandonReason = `the node that served the call gave it up: ${reason}`;
    for (const call of this.open.values()) if (call.peer === peer) call.abandon(abandonReason, true);
  }

  /** Gives up all calls, and answers later ones as not served. */
  abandonAll(reason: string): void {
    this.#leaving = true;
    for (const call of this.open.values()) call.abandon(reason);
  }

  #begin(call: IncomingCall, handler: ServingHandler): void {
    const failed = (error: unknown): void => {
      if (!(error instanceof GatewayError)) this.#logger.error('bus_handler_failed', { subject: call.subject, error });
      call.fail(error instanceof GatewayError ? error : new GatewayError('INTERNAL', 'the handler of the call failed'));
    };
    try {
      handler(call)?.then(() => {
        // Created only if needed: an error costs more than a short call.
        if (!call.answered) failed(new GatewayError('INTERNAL', 'the handler ended without an answer'));
      }, failed);
    } catch (error) {
      failed(error);
    }
  }

  #unserved(id: CallId, from: string, reason: string): void {
    this.transport.sender.transmit(from, 'caller', id, plainFrame(FRAME.unserved, reason));
  }
}

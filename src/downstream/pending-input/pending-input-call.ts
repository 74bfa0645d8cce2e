import { missing, OpenQuestions } from '../../gateway/open-questions.ts';
import type { Clock } from '../../model/clock.ts';
import type { Endpoint, Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { bodyLexeme, progressToken } from '../../protocol/body.ts';
import { declares } from '../../protocol/client-capabilities.ts';
import type { Range } from '../../protocol/fields.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import { isInputRequest, MAX_INPUT_REQUESTS, takesInput } from '../../protocol/stateless/input-required.ts';
import type { ClientExchange, Reply } from '../session/client-exchange.ts';

/** Limits of the server's notifications that a pending call buffers while no request is attached. */
const MAX_KEPT = 16;
const MAX_KEPT_BYTES = 8 * 1024;
const LEFT = 'the client did not come back with what it was asked for';

/** How long a client may take to retry with its input. */
export const TTL_MS = 10 * 60_000;
/** Questions that arrive within this time of each other are asked in one round. */
const GATHER_MS = 5;

/** All pending calls, which share memory limits, and the `requestState` values that lead back to them. */
export interface PendingInputCalls {
  /** Accounts this many more bytes to the call; false if a limit is reached. */
  hold(call: PendingInputCall, bytes: number): boolean;
  /** Releases bytes of the call. */
  release(call: PendingInputCall, bytes: number): void;
  /** Issues a new `requestState` for the call; returns the `input_required` result with these questions. */
  requireInput(call: PendingInputCall, questions: Buffer): Message;
  /** Removes a call that has ended. */
  remove(call: PendingInputCall): void;
}

/**
 * A live call of a stateless client whose stateful server asks for input (decision 011): the reply of the exchange that the
 * gateway works on. The exchanges of the client's requests are attached one after the other. A round ends the attached
 * request with an `input_required` result; the next one attaches with the answers.
 *
 * A lost connection cancels the call while its request is attached, as 2026-07-28 requires; otherwise the call waits for
 * its timeout.
 */
export class PendingInputCall implements Reply {
  readonly canAsk = true;
  /** The exchange that the gateway works on. */
  readonly call: ClientExchange;
  /** The wire that the call arrived on, for wires whose end ends their calls; null for HTTP. */
  readonly wire: object | null;
  readonly endpoint: Endpoint;
  /** Id of the current `requestState`, digest that the request of each round must have, and bytes accounted to the call. */
  handle = '';
  digest = '';
  held = 0;
  readonly #calls: PendingInputCalls;
  readonly #clock: Clock;
  readonly #questions = new OpenQuestions('ask');
  #attached: ClientExchange | null;
  #kept: Message[] = [];
  #keptBytes = 0;
  #outcome: Outcome | null = null;
  #gathering: (() => void) | null = null;
  #expiry: (() => void) | null = null;

  constructor(
    call: ClientExchange,
    attached: ClientExchange,
    endpoint: Endpoint,
    wire: object | null,
    calls: PendingInputCalls,
    clock: Clock,
  ) {
    this.call = call;
    this.endpoint = endpoint;
    this.wire = wire;
    this.#calls = calls;
    this.#clock = clock;
    this.#attached = attached;
    call.reply = this;
    attached.onCancel = (reason) => call.cancel(reason);
  }

  get waitingForInput(): boolean {
    return this.#attached === null;
  }

  askFor(call: ClientExchange, request: Message): Promise<Message> {
    const { capabilities } = (this.#attached ?? call).client;
    const refused = refusalOf(call.request, request, capabilities);
    if (refused !== null) return Promise.reject(refused);
    const { length } = request.bytes;
    if (this.#questions.size >= MAX_INPUT_REQUESTS || !this.#calls.hold(this, length)) {
      return Promise.reject(new GatewayError('OVERLOADED', 'too many questions wait for answers of clients'));
    }
    const asked = this.#questions.ask(request);
    const given = () => this.#calls.release(this, length);
    asked.then(given, given);
    this.#gather();
    return asked;
  }

  notify(call: ClientExchange, notification: Message, flow: Flow | null): void {
    if (notification.method === 'notifications/cancelled') this.#cancelQuestion(notification);
    else if (this.#attached !== null) this.#forward(this.#attached, call, notification, flow);
    else this.#keep(notification);
  }

  answer(_call: ClientExchange, outcome: Outcome): void {
    this.#stopAsking('the call this question belongs to is over');
    if (this.#attached === null) this.#outcome = this.#keepable(outcome);
    else this.#end(this.#attached, outcome);
  }

  cancelled(call: ClientExchange): void {
    this.#stopAsking('the call this question belongs to was cancelled');
    const error = new GatewayError('CANCELLED', call.cancelled ?? 'the call was cancelled');
    if (this.#attached === null) this.#outcome = failure(error);
    else this.#end(this.#attached, failure(error));
  }

  /** Attaches the client's next request, and delivers what it missed. `responses` is an object in that request. */
  attach(attached: ClientExchange, responses: Range | null): void {
    this.#expiry?.();
    this.#expiry = null;
    if (this.#outcome !== null) {
      this.#end(attached, this.#outcome);
      return;
    }
    this.#attached = attached;
    attached.onCancel = (reason) => this.call.cancel(reason);
    const kept = this.#kept;
    this.#kept = [];
    this.#keptBytes = 0;
    for (const notification of kept) this.#forward(attached, this.call, notification, null);
    if (responses !== null) this.#questions.take(attached.request.bytes, responses);
    // Unanswered questions are asked again (mrtr §Error Handling), if this request declares the capability as well.
    this.#questions.refuseUndeclared(attached.client.capabilities);
    this.#gather();
  }

  /** Ends the call with an error. The client gets it when it retries, even if the call has ended with an outcome before. */
  abandon(error: GatewayError): void {
    const outcome = failure(error);
    this.call.conclude(outcome, error.message);
    this.#outcome = outcome;
  }

  /** Cancels the call, because its client will not retry. */
  cancel(reason: string): void {
    this.#expiry?.();
    this.#expiry = null;
    this.#calls.remove(this);
    this.call.cancel(reason);
  }

  #gather(): void {
    if (this.#attached === null || this.#gathering !== null || this.#questions.size === 0) return;
    this.#gathering = this.#clock.after(GATHER_MS, () => {
      this.#gathering = null;
      this.#askInput();
    });
  }

  #askInput(): void {
    const attached = this.#attached;
    if (attached === null || this.#questions.size === 0) return;
    this.#attached = null;
    attached.onCancel = null;
    this.#expiry = this.#clock.after(TTL_MS, () => this.cancel(LEFT));
    attached.finish(answer(this.#calls.requireInput(this, this.#questions.asJson())));
  }

  #cancelQuestion(notification: Message): void {
    const id = bodyLexeme(notification, 'requestId');
    if (id !== null) this.#questions.cancel(id);
  }

  /** Sends progress under the token of the attached request, which may differ from that of the first request. */
  #forward(attached: ClientExchange, call: ClientExchange, notification: Message, flow: Flow | null): void {
    const token = progressToken(notification);
    if (token === null || attached.request === call.request) {
      attached.emit(notification, flow);
      return;
    }
    const own = progressToken(attached.request);
    if (own === null) return;
    const insert = attached.request.bytes.subarray(own.start, own.end);
    attached.emit(spliceMessage(notification, [{ ...token, insert }]), flow);
  }

  #keep(notification: Message): void {
    const { length } = notification.bytes;
    const full = this.#kept.length >= MAX_KEPT || this.#keptBytes + length > MAX_KEPT_BYTES;
    if (full || progressToken(notification) !== null) return;
    this.#kept.push(notification);
    this.#keptBytes += length;
  }

  /** The outcome that arrived while no request was attached; an error if it is too large to buffer. */
  #keepable(outcome: Outcome): Outcome {
    if (outcome.kind === 'failure' || this.#calls.hold(this, outcome.message.bytes.length)) return outcome;
    const text = 'the answer came while the client was away, and is too large to be kept for it';
    return failure(new GatewayError('TOO_LARGE', text));
  }

  #stopAsking(why: string): void {
    this.#gathering?.();
    this.#gathering = null;
    this.#kept = [];
    this.#questions.end(new GatewayError('CANCELLED', why));
  }

  #end(attached: ClientExchange, outcome: Outcome): void {
    this.#attached = null;
    attached.onCancel = null;
    this.#calls.remove(this);
    attached.finish(outcome);
  }
}

/** Why this request of the server cannot be put to the client of this call; null if it can. */
function refusalOf(call: Message, request: Message, capabilities: string): GatewayError | null {
  const { method } = request;
  if (!isInputRequest(method)) {
    return new GatewayError('METHOD_NOT_FOUND', `${method} cannot be asked of a client of 2026-07-28`);
  }
  if (!takesInput(call.method)) {
    return new GatewayError(
      'MISSING_CAPABILITY',
      `nothing can be asked of the client while it waits for ${call.method}`,
    );
  }
  return declares(capabilities, request) ? null : missing(method);
}

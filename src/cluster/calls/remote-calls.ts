import type { Bus, BusOutcome, Payload } from '../../bus/bus.ts';
import { CALL_ATTEMPT, type CallAttempt } from '../../model/call-record.ts';
import type { Exchange, Flow } from '../../model/exchange.ts';
import { cancelledBeforeSend, GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { list, matches } from '../../model/schema.ts';
import {
  type ClientText,
  clientText,
  headOf,
  type MessageHead,
  messageOf,
  packFrame,
  SHORT_FORM,
  unpackFrame,
} from '../frames/frame.ts';
import type { NodeView } from '../nodes/node-state.ts';
import { type ForwardedOptions, forwardedOptionsOf, OutgoingContexts, type SentContext } from './call-contexts.ts';
import { hasShortForm, packRequest, unpackAnswer } from './short-form.ts';

export interface ExchangeHeader extends ForwardedOptions {
  readonly request: MessageHead;
  readonly exchange: string;
  readonly client: ClientText;
  readonly paramHeaders: Readonly<Record<string, string>> | null;
}

export interface CallHeader extends ExchangeHeader {
  readonly server: string;
  readonly nodeEpoch: string;
  /** Epoch of the claim that the call needs; null if it needs none. */
  readonly epoch: string | null;
  /** Milliseconds that the client has waited; they count against the deadline. Nodes of an earlier version omit it. */
  readonly waitedMs?: number;
}

export type ReplyHeader =
  | {
      readonly kind: 'answer';
      readonly message: MessageHead;
      readonly key: string | null;
      readonly own: boolean;
      /** Attempts since the call arrived there; absent if there was only one, and from nodes of an earlier version. */
      readonly attempts?: readonly CallAttempt[];
    }
  | { readonly kind: 'elsewhere'; readonly reason: string };

export interface AskHeader {
  readonly message: MessageHead;
  readonly likely?: boolean;
}

type RemoteOutcome =
  | {
      readonly kind: 'ended';
      readonly outcome: Outcome;
      readonly key: string | null;
      readonly own: boolean;
      /** Attempts at the serving node; null if there was only one. */
      readonly attempts: readonly CallAttempt[] | null;
    }
  /** `undelivered`: the call did not reach the node. */
  | { readonly kind: 'elsewhere'; readonly reason: string; readonly undelivered?: boolean };

/** Deadline on the bus of calls that end for another reason: a week. Node's timers overflow after 24.8 days. */
export const LONGEST_MS = 7 * 24 * 3_600_000;
/** If the serving node does not report a timeout, the calling node does so this much later. */
const GRACE_MS = 500;
const ATTEMPTS = list(CALL_ATTEMPT);
export const CALLS = 'trunkline.calls';

export function exchangeHeader(request: Message, exchange: Exchange): ExchangeHeader {
  return {
    request: headOf(request),
    exchange: exchange.id,
    client: clientText(exchange.client),
    ...forwardedOptionsOf(exchange),
    paramHeaders: exchange.paramHeaders ?? null,
  };
}

/** Runs an exchange over the bus until its outcome, which `ended` converts. */
export function runElsewhere<Ended>(
  bus: Bus,
  name: string,
  peer: string,
  payload: Payload,
  exchange: Exchange,
  idleTimeoutMs: number,
  ended: (outcome: BusOutcome) => Ended | Promise<Ended>,
): Promise<Ended> {
  const flow: Flow = { pause: () => call.pause(), resume: () => call.resume() };
  const call = bus.call(name, payload, {
    to: peer,
    deadlineMs: LONGEST_MS,
    idleTimeoutMs,
    onEmit: (bytes) => exchange.emit(messageIn(bytes).message, flow),
    async onAsk(bytes) {
      const { message, likely } = messageIn(bytes);
      const reply = await exchange.ask(message, likely);
      return packFrame({ message: headOf(reply) }, [reply.bytes]);
    },
  });
  exchange.onCancel = (reason) => call.cancel(reason);
  return call.outcome.then((outcome) => {
    exchange.onCancel = null;
    return ended(outcome);
  });
}

export class RemoteCalls {
  readonly #bus: Bus;
  readonly #contexts = new OutgoingContexts();

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** Calls another node, which enforces the deadline: `timeoutMs` minus `waitedMs`, none if `timeoutMs` is 0. Never rejects. */
  run(
    node: NodeView,
    server: string,
    request: Message,
    exchange: Exchange,
    epoch: string | null,
    waitedMs: number,
    timeoutMs: number,
  ): Promise<RemoteOutcome> {
    const { cancelled } = exchange;
    if (cancelled !== null) return Promise.resolve(ended(cancelledBeforeSend(server, cancelled)));
    const idleTimeoutMs = timeoutMs > 0 ? Math.max(0, timeoutMs - waitedMs) + GRACE_MS : 0;
    const sent = this.#contextFor(node, server, request, epoch, exchange);
    const known = sent?.known === true;
    const contextText = sent === null || known ? null : this.#contexts.textOf(sent, exchange.client);
    const payload =
      (sent === null ? null : packRequest(request, exchange.id, waitedMs, sent.number, contextText)) ??
      packFrame({ ...exchangeHeader(request, exchange), server, nodeEpoch: node.epoch, epoch, waitedMs }, [
        request.bytes,
      ]);
    return runElsewhere(this.#bus, CALLS, node.peer, payload, exchange, idleTimeoutMs, (outcome) => {
      if (contextText !== null) sent!.text = null;
      if (outcome.kind === 'failure') return this.#failed(outcome, node, server);
      const reply = readReply(outcome.payload, sent, known, node, server);
      // The node has evicted the context and did not run the call: send it again with the context.
      return reply ?? this.run(node, server, request, exchange, epoch, waitedMs, timeoutMs);
    });
  }

  #failed(
    { error, fromServer }: Extract<BusOutcome, { kind: 'failure' }>,
    node: NodeView,
    server: string,
  ): RemoteOutcome {
    // The node left without taking the call: find the node that serves it now.
    const undelivered = fromServer !== true && error.code === 'NOT_SENT' && error.data.retryable;
    if (undelivered && this.#bus.connected) return { kind: 'elsewhere', reason: error.message, undelivered };
    return ended(at(error, node, server));
  }

  /** Returns null if the node or the request needs the JSON form. */
  #contextFor(
    node: NodeView,
    server: string,
    request: Message,
    epoch: string | null,
    exchange: Exchange,
  ): SentContext | null {
    if ((node.forms ?? 1) < SHORT_FORM || exchange.paramHeaders != null) return null;
    if (!hasShortForm(request, exchange.id)) return null;
    return this.#contexts.of(node, server, epoch, exchange);
  }
}

/** Returns null if the caller must send the context again. */
function readReply(
  payload: Buffer,
  sent: SentContext | null,
  known: boolean,
  node: NodeView,
  server: string,
): RemoteOutcome | null {
  try {
    const short = unpackAnswer(payload);
    if (short === 'resend') {
      if (sent === null || !known) throw new Error('it refuses the call context that it received');
      sent.known = false;
      return null;
    }
    if (short !== null) {
      if (sent !== null) sent.known = true;
      return { kind: 'ended', outcome: answer(short.message), key: short.key, own: short.own, attempts: null };
    }
    const { header: reply, pieces } = unpackFrame<ReplyHeader>(payload);
    if (reply.kind === 'elsewhere') return reply;
    const message = messageOf(reply.message, pieces[0]!);
    const attempts = matches(ATTEMPTS, reply.attempts) ? reply.attempts : null;
    return { kind: 'ended', outcome: answer(message), key: reply.key, own: reply.own, attempts };
  } catch (cause) {
    return ended(new GatewayError('UNKNOWN', `node ${node.id} answered what cannot be read`, { server, cause }));
  }
}

function messageIn(payload: Buffer): { readonly message: Message; readonly likely: boolean } {
  const { header, pieces } = unpackFrame<AskHeader>(payload);
  return { message: messageOf(header.message, pieces[0]!), likely: header.likely === true };
}

function ended(error: GatewayError): RemoteOutcome {
  return { kind: 'ended', outcome: failure(error), key: null, own: false, attempts: null };
}

function at(error: GatewayError, node: NodeView, server: string): GatewayError {
  const { code, message, forCallers, data } = error;
  return new GatewayError(code, message, {
    ...data,
    server: data.server ?? server,
    node: node.id,
    forCallers,
    cause: error,
  });
}

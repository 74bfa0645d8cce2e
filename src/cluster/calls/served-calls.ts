import type { Bus, BusServing } from '../../bus/bus.ts';
import type { CallAttempt } from '../../model/call-record.ts';
import { pause } from '../../model/clock.ts';
import { publicReplyOf } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { ClusterCalls } from '../cluster-calls.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { clientOf, headOf, messageOf, packFrame, unpackFrame } from '../frames/frame.ts';
import type { OwnNode } from '../lease/own-node.ts';
import type { ConsumerNodes } from '../nodes/consumer-nodes.ts';
import type { KnownConnection } from '../nodes/foreign-catalogs.ts';
import { isListen, type Served } from './attempts.ts';
import { IncomingContexts } from './call-contexts.ts';
import { CALLS, type CallHeader, type ReplyHeader } from './remote-calls.ts';
import { ServedExchange } from './served-exchange.ts';
import { packAnswer, packResendContext, unpackRequest } from './short-form.ts';

const MAX_CALLS = 10_000;

/** How long a leaving node waits for messages in transit to it and for its in-flight calls. */
const FLUSH_MS = 5_000;
const POLL_MS = 10;

const ANSWERED = { node: null, outcome: 'RESULT', reason: null } as const;

const FLUSH = 'trunkline.farewell';

interface ReceivedCall {
  readonly exchange: ServedExchange;
  readonly server: string;
  readonly nodeEpoch: string;
  readonly epoch: string | null;
  readonly waitedMs: number;
  readonly short: boolean;
}

/** Registers a public call of the node `by`; `ServedCalls` passes its outcome to the returned function. Null: none are served. */
export interface PublicCalls {
  publicCall(reply: string, server: string, by: string): ((outcome: Served) => void) | null;
}

type Deps = Pick<ClusterDeps, 'bus' | 'clock' | 'local'>;
type Calls = Pick<ClusterCalls, 'relayed' | 'serve'>;

/** Serves the calls that other nodes send to this node. */
export class ServedCalls {
  readonly #deps: Deps;
  readonly #self: Pick<OwnNode, 'epoch'>;
  readonly #calls: Calls;
  readonly #consumers: ConsumerNodes;
  readonly #public: PublicCalls;
  readonly #serving: { close(): void };
  readonly #contexts = new IncomingContexts();
  load = 0;
  #listens = 0;
  count = 0;

  constructor(
    deps: Deps,
    self: Pick<OwnNode, 'epoch'>,
    calls: Calls,
    consumers: ConsumerNodes,
    publicCalls: PublicCalls,
  ) {
    this.#deps = deps;
    this.#self = self;
    this.#calls = calls;
    this.#consumers = consumers;
    this.#public = publicCalls;
    const serve = (serving: BusServing) => this.#serve(serving);
    this.#serving = deps.bus.serve(CALLS, serve, { concurrency: MAX_CALLS });
  }

  get inFlight(): number {
    return this.load - this.#listens;
  }

  /** Stops accepting calls. Resolves when messages in transit have arrived and in-flight calls have ended, within `FLUSH_MS`. */
  async close(): Promise<void> {
    const { bus, clock } = this.#deps;
    this.#serving.close();
    const end = clock.now() + FLUSH_MS;
    await flushIncoming(bus, clock, FLUSH_MS);
    while (this.load > 0 && clock.now() < end) await pause(clock, POLL_MS);
  }

  #serve(serving: BusServing): Promise<void> | undefined {
    const { clock, local } = this.#deps;
    const call = this.#read(serving);
    if (call === null) {
      serving.answer(packResendContext());
      return undefined;
    }
    const { exchange, server, epoch, short } = call;
    // The call names another epoch of this node: the caller's view is outdated.
    if (call.nodeEpoch !== this.#self.epoch) {
      serving.answer(packFrame({ kind: 'elsewhere', reason: 'the lease of the node is another one' } as ReplyHeader));
      return undefined;
    }
    const cameAt = clock.now();
    exchange.searchStartedAt = cameAt - call.waitedMs;
    this.#consumers.used(server, exchange.client, serving.from);
    const reply = publicReplyOf(exchange);
    const publicEnd = reply === null ? null : this.#public.publicCall(reply, server, serving.from);
    exchange.outlivesCaller = publicEnd !== null;
    const listens = isListen(exchange.request);
    const running = this.#calls.serve(server, exchange.request, exchange, epoch, serving.from);
    this.#calls.relayed.track(server, exchange, running);
    this.count++;
    this.#running(listens, 1);
    const ended = (outcome: Served): void => {
      this.#running(listens, -1);
      publicEnd?.(outcome);
      if (outcome.kind === 'elsewhere') serving.answer(packFrame(outcome));
      else if (outcome.kind === 'failure') serving.fail(outcome.error);
      else {
        const connection = {
          key: local.sessionKey(server, exchange.client),
          own: local.ownsConnection(server, exchange.client),
        };
        const attempts = exchange.attempts?.upTo(cameAt, clock.now() - cameAt, ANSWERED);
        serving.answer(packReply(outcome.message, connection, short, attempts));
      }
    };
    const failed = (error: unknown): never => {
      this.#running(listens, -1);
      publicEnd?.({ kind: 'failure', error: new GatewayError('INTERNAL', 'the gateway failed', { cause: error }) });
      throw error;
    };
    return running.then(ended, failed);
  }

  #running(listens: boolean, by: 1 | -1): void {
    this.load += by;
    if (listens) this.#listens += by;
  }

  /** Returns null if the caller must send the context again. Throws GatewayError for malformed frames. */
  #read(serving: BusServing): ReceivedCall | null {
    const { payload, from } = serving;
    const short = unpackRequest(payload);
    if (short !== null) {
      const { message, exchange, waitedMs, number, context: text } = short;
      const received = text === '' ? this.#contexts.get(from, number) : this.#contexts.take(from, number, text);
      if (received === undefined) return null;
      const { context, client } = received;
      const { server, nodeEpoch, epoch } = context;
      const served = new ServedExchange(serving, exchange, message, client, context);
      return { exchange: served, server, nodeEpoch, epoch, waitedMs, short: true };
    }
    const { header, pieces } = unpackFrame<CallHeader>(payload);
    const { server, nodeEpoch, epoch, waitedMs = 0 } = header;
    const request = messageOf(header.request, pieces[0]!);
    const exchange = new ServedExchange(serving, header.exchange, request, clientOf(header.client), header);
    return { exchange, server, nodeEpoch, epoch, waitedMs, short: false };
  }
}

/** Packs an answer with attempts as JSON, because the short form has no field for them. */
function packReply(
  message: Message,
  connection: KnownConnection,
  short: boolean,
  attempts: readonly CallAttempt[] | undefined,
): Buffer[] {
  const packed = short && attempts === undefined ? packAnswer(message, connection.key, connection.own) : null;
  if (packed !== null) return packed;
  const more = attempts === undefined ? {} : { attempts };
  const reply: ReplyHeader = { kind: 'answer', message: headOf(message), ...connection, ...more };
  return packFrame(reply, [message.bytes]);
}

/**
 * Resolves when all messages sent to this node so far have arrived: its own message arrives last. Waits at most `withinMs`.
 */
function flushIncoming(bus: Bus, clock: ClusterDeps['clock'], withinMs: number): Promise<void> {
  if (!bus.connected) return Promise.resolve();
  const subject = `${FLUSH}.${bus.peer}`;
  return new Promise((resolve) => {
    const done = (): void => {
      disarm();
      own.close();
      resolve();
    };
    const disarm = clock.after(withinMs, done);
    const own = bus.subscribe(subject, done);
    bus.publish(subject, Buffer.alloc(0));
  });
}

import type { Bus, BusServing } from '../../bus/bus.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { type Clock, pause } from '../../model/clock.ts';
import { type Exchange, publicReplyOf } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import { clientOf } from '../frames/client-codec.ts';
import { headOf, messageOf, packFrame, unpackFrame } from '../frames/frame.ts';
import { flushIncoming } from '../lease/flush-incoming.ts';
import { TermsHeard } from './call-terms.ts';
import { isListen } from './deadline-of.ts';
import { type CallHeader, callsSubject, type ReplyHeader } from './remote-calls.ts';
import { ServedExchange } from './served-exchange.ts';
import { packAnswer, packTell, unpackRequest } from './short-form.ts';

/** More than this many calls of other nodes at once are refused. */
const MAX_CALLS = 10_000;

/** A node that leaves waits so long, and no longer, for what it did not begin to be told so. */
const FAREWELL_MS = 5_000;
const POLL_MS = 10;

/** What becomes of a call that another node sent here: its outcome, or why this node is not the one to ask. */
export type Served = Outcome | { readonly kind: 'elsewhere'; readonly reason: string };

interface Connection {
  readonly key: string | null;
  readonly own: boolean;
}

interface ReceivedCall {
  readonly exchange: ServedExchange;
  readonly server: string;
  readonly nodeEpoch: string;
  readonly epoch: string | null;
  readonly waitedMs: number;
  /** It came in the short form, and is answered in it. */
  readonly short: boolean;
}

export interface ServedCallsDeps {
  readonly bus: Bus;
  readonly clock: Clock;
  /** Of this node's lease, now. */
  readonly nodeEpoch: () => string;
  /** Runs it here or not at all. Never rejects. */
  readonly run: (
    server: string,
    request: Message,
    exchange: Exchange,
    epoch: string | null,
    by: string,
  ) => Promise<Served>;
  /** Which connection served the client, and whether it is its own. */
  readonly connection: (server: string, client: ClientProfile) => Connection;
  /** A node called for this client, so that it is the one to hear what the server has to say. */
  readonly used: (server: string, client: ClientProfile, by: string) => void;
  /** As `Cluster.onPublicCall`. Such a call goes on when the calling node is gone. */
  readonly publicCall?: (reply: string, server: string, by: string) => ((outcome: Served) => void) | null;
}

/** Calls that other nodes send to this one, because it owns what they need. */
export class ServedCalls {
  readonly #deps: ServedCallsDeps;
  readonly #serving: { close(): void };
  readonly #terms = new TermsHeard();
  #load = 0;
  /** Of these: streams, which nobody waits for. */
  #listens = 0;
  #count = 0;

  constructor(deps: ServedCallsDeps) {
    this.#deps = deps;
    const serve = (serving: BusServing) => this.#serve(serving);
    this.#serving = deps.bus.serve(callsSubject(deps.bus.peer), serve, { concurrency: MAX_CALLS });
  }

  get load(): number {
    return this.#load;
  }

  /** Calls that have not ended, but for streams that only somebody ends. */
  get inFlight(): number {
    return this.#load - this.#listens;
  }

  /** All there were. */
  get count(): number {
    return this.#count;
  }

  /** Takes no new ones. Resolves when whoever called before they knew has been told to call elsewhere. */
  async close(): Promise<void> {
    const { bus, clock } = this.#deps;
    this.#serving.close();
    const end = clock.now() + FAREWELL_MS;
    await flushIncoming(bus, clock, FAREWELL_MS);
    while (this.#load > 0 && clock.now() < end) await pause(clock, POLL_MS);
  }

  #serve(serving: BusServing): Promise<void> | undefined {
    const { clock, nodeEpoch, run, used, connection } = this.#deps;
    const call = this.#read(serving);
    if (call === null) {
      serving.answer(packTell());
      return undefined;
    }
    const { exchange, server, epoch, short } = call;
    // Meant for an earlier life of this node: whatever the caller believes of it does not hold.
    if (call.nodeEpoch !== nodeEpoch()) {
      serving.answer(packFrame({ kind: 'elsewhere', reason: 'the lease of the node is another one' } as ReplyHeader));
      return undefined;
    }
    exchange.begunAt = clock.now() - call.waitedMs;
    used(server, exchange.client, serving.from);
    const reply = publicReplyOf(exchange);
    const publicEnd = reply === null ? null : (this.#deps.publicCall?.(reply, server, serving.from) ?? null);
    exchange.outlivesCaller = publicEnd !== null;
    const listens = isListen(exchange.request);
    const running = run(server, exchange.request, exchange, epoch, serving.from);
    this.#begun(listens);
    const ended = (outcome: Served): void => {
      this.#ended(listens);
      publicEnd?.(outcome);
      if (outcome.kind === 'elsewhere') serving.answer(packFrame(outcome));
      else if (outcome.kind === 'failure') serving.fail(outcome.error);
      else serving.answer(packReply(outcome.message, connection(server, exchange.client), short));
    };
    const failed = (error: unknown): never => {
      this.#ended(listens);
      publicEnd?.({ kind: 'failure', error: new GatewayError('INTERNAL', 'the gateway failed', { cause: error }) });
      throw error;
    };
    return running.then(ended, failed);
  }

  #begun(listens: boolean): void {
    this.#count++;
    this.#load++;
    if (listens) this.#listens++;
  }

  #ended(listens: boolean): void {
    this.#load--;
    if (listens) this.#listens--;
  }

  /** Null where the caller has to tell the terms again. Throws GatewayError for what no node can have sent. */
  #read(serving: BusServing): ReceivedCall | null {
    const { payload, from } = serving;
    const short = unpackRequest(payload);
    if (short !== null) {
      const { message, exchange, waitedMs, number, terms: told } = short;
      const heard = told === '' ? this.#terms.get(from, number) : this.#terms.take(from, number, told);
      if (heard === undefined) return null;
      const { terms, client } = heard;
      const { server, nodeEpoch, epoch } = terms;
      const served = new ServedExchange(serving, exchange, message, client, terms);
      return { exchange: served, server, nodeEpoch, epoch, waitedMs, short: true };
    }
    const { header, pieces } = unpackFrame<CallHeader>(payload);
    const { server, nodeEpoch, epoch, waitedMs = 0 } = header;
    const request = messageOf(header.request, pieces[0]!);
    const exchange = new ServedExchange(serving, header.exchange, request, clientOf(header.client), header);
    return { exchange, server, nodeEpoch, epoch, waitedMs, short: false };
  }
}

function packReply(message: Message, connection: Connection, short: boolean): Buffer[] {
  const packed = short ? packAnswer(message, connection.key, connection.own) : null;
  if (packed !== null) return packed;
  const reply: ReplyHeader = { kind: 'answer', message: headOf(message), ...connection };
  return packFrame(reply, [message.bytes]);
}

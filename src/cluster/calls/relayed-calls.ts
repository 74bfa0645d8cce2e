import type { BusCall, BusOutcome, BusServing } from '../../bus/bus.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { headOf, type MessageHead, messageOf, packFrame, unpackFrame } from '../frames/frame.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import { isListen, type Served } from './attempts.ts';
import { LONGEST_MS } from './remote-calls.ts';
import type { ServedExchange } from './served-exchange.ts';

const NAME = 'trunkline.left';
/** The time in which a client can resume its stream. */
const KEPT_MS = 5 * 60_000;
const MAX_WAITING = 10_000;
/** Limit of all kept outcomes. */
const MAX_KEPT_BYTES = 32 * 1024 * 1024;
/** Overhead that counts for each kept outcome. */
const LEAST_BYTES = 1024;
const GONE = 'the node that passed this call on is gone, and how the call ended is unknown';

interface CallName {
  readonly server: string;
  readonly sessionId: string;
  readonly principal: string;
  /** The request id as the client wrote it. */
  readonly id: string;
}

interface CallForOther {
  readonly exchange: ServedExchange;
  /** Null if the call did not run here, or ended with an internal error. */
  readonly outcome: Promise<Outcome | null>;
}

type FoundHeader = { readonly kind: 'none' } | { readonly kind: 'answer'; readonly message: MessageHead };

/**
 * Calls that other nodes send here for clients with sessions. If the calling node dies, the call continues, and this node keeps
 * its outcome for the client, which may reconnect to any node (decision 089).
 */
export class RelayedCalls {
  readonly #deps: Pick<ClusterDeps, 'bus' | 'clock'>;
  readonly #known: Pick<KnownServers, 'others'>;
  readonly #calls = new Map<string, CallForOther>();
  /** Outcomes of ended calls, the oldest first. */
  readonly #kept = new Map<string, { readonly outcome: Outcome; readonly stop: () => void }>();
  #keptBytes = 0;

  constructor(deps: Pick<ClusterDeps, 'bus' | 'clock'>, known: Pick<KnownServers, 'others'>) {
    this.#deps = deps;
    this.#known = known;
    deps.bus.serve(NAME, (serving) => this.#serve(serving), { concurrency: MAX_WAITING });
  }

  track(server: string, exchange: ServedExchange, running: Promise<Served>): void {
    const { request, client } = exchange;
    if (client.sessionId === null || client.passing === true || isListen(request)) return;
    exchange.outlivesCaller = true;
    const key = keyOf(nameOf(server, exchange));
    const call: CallForOther = { exchange, outcome: running.then(copyOf, () => null) };
    this.#calls.set(key, call);
    // Until then the call stays here: a node that dies has not acknowledged the last outcomes.
    exchange.onEnd = () => void call.outcome.then((outcome) => this.#ended(key, call, outcome));
  }

  /** Finds the outcome of a call, here or at another node, for a client that reconnected. Never rejects. */
  async outcomeOf(server: string, exchange: Exchange): Promise<Outcome> {
    const name = nameOf(server, exchange);
    const here = await this.#find(name);
    exchange.found = here != null;
    if (here != null) return here;
    const searches = Array.from(this.#known.others(), ({ peer }) => this.#search(peer, name));
    exchange.onCancel = (reason) => {
      for (const { call } of searches) call.cancel(reason);
    };
    if (exchange.cancelled !== null) exchange.onCancel(exchange.cancelled);
    try {
      const outcome = await Promise.any(searches.map(({ found }) => found));
      exchange.found = true;
      return outcome;
    } catch {
      return failure(new GatewayError('UNKNOWN', GONE, { server }));
    } finally {
      exchange.onCancel = null;
      for (const { call } of searches) call.cancel('the answer was found');
    }
  }

  /** Cancels calls of the session whose calling node is gone: no client takes their answers. */
  sessionEnded(sessionId: string): void {
    for (const { exchange } of this.#calls.values()) {
      if (exchange.callerLost && exchange.client.sessionId === sessionId) exchange.cancel('the session was ended');
    }
  }

  #ended(key: string, call: CallForOther, outcome: Outcome | null): void {
    if (this.#calls.get(key) === call) this.#calls.delete(key);
    if (!call.exchange.callerLost || outcome === null) return;
    this.#forget(key);
    if (bytesOf(outcome) > MAX_KEPT_BYTES) return;
    const stop = this.#deps.clock.after(KEPT_MS, () => this.#forget(key));
    this.#kept.set(key, { outcome, stop });
    this.#keptBytes += bytesOf(outcome);
    for (const oldest of this.#kept.keys()) {
      if (this.#keptBytes <= MAX_KEPT_BYTES) break;
      this.#forget(oldest);
    }
  }

  #forget(key: string): void {
    const kept = this.#kept.get(key);
    if (kept === undefined) return;
    kept.stop();
    this.#kept.delete(key);
    this.#keptBytes -= bytesOf(kept.outcome);
  }

  #find(name: CallName): Promise<Outcome | null> | Outcome | undefined {
    const key = keyOf(name);
    return this.#calls.get(key)?.outcome ?? this.#kept.get(key)?.outcome;
  }

  /** `found` rejects if the node does not have the call, or cannot look for it. */
  #search(peer: string, name: CallName): { readonly call: BusCall; readonly found: Promise<Outcome> } {
    let failed = false;
    const onEmit = (): void => {
      failed = true;
    };
    const call = this.#deps.bus.call(NAME, packFrame(name), { to: peer, deadlineMs: LONGEST_MS, onEmit });
    return { call, found: call.outcome.then((outcome) => foundIn(outcome, failed)) };
  }

  async #serve(serving: BusServing): Promise<void> {
    const outcome = await this.#find(unpackFrame<CallName>(serving.payload).header);
    if (outcome == null) serving.answer(packFrame({ kind: 'none' } satisfies FoundHeader));
    else if (outcome.kind === 'failure') {
      // Only this distinguishes the outcome of the call from a failure of the search.
      serving.emit(packFrame({ kind: 'failure' }));
      serving.fail(outcome.error);
    } else {
      const { message } = outcome;
      serving.answer(packFrame({ kind: 'answer', message: headOf(message) } satisfies FoundHeader, [message.bytes]));
    }
  }
}

function nameOf(server: string, { client, request }: Exchange): CallName {
  return { server, sessionId: client.sessionId ?? '', principal: client.principal.id, id: request.id };
}

function keyOf({ server, sessionId, principal, id }: CallName): string {
  return `${server} ${sessionId} ${principal} ${id}`;
}

function bytesOf(outcome: Outcome): number {
  return outcome.kind === 'answer' ? outcome.message.bytes.length + LEAST_BYTES : LEAST_BYTES;
}

/** Copies the answer, because its buffer is reused. Returns null if the call did not run here. */
function copyOf(served: Served): Outcome | null {
  if (served.kind !== 'answer') return served.kind === 'failure' ? served : null;
  const { message } = served;
  return answer(messageOf(headOf(message), Buffer.from(message.bytes)));
}

/** Throws if the node does not have the call, or cannot look for it. `failed`: it has announced that the call failed. */
function foundIn(outcome: BusOutcome, failed: boolean): Outcome {
  if (outcome.kind === 'failure') {
    const { error, fromServer } = outcome;
    // Nodes of earlier versions announce nothing.
    const ofSearch = !failed && (error.code === 'OVERLOADED' || error.code === 'INTERNAL');
    if (fromServer === true && !ofSearch) return failure(error);
    throw error;
  }
  const { header, pieces } = unpackFrame<FoundHeader>(outcome.payload);
  if (header.kind === 'none') throw new Error('it has no such call');
  return answer(messageOf(header.message, pieces[0]!));
}

import type { Clock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { Server } from '../../model/server.ts';
import { cacheHints } from '../../protocol/list-freshness.ts';
import { resultType } from '../../protocol/stateless/to-stateless.ts';
import type { Metric, Metrics, Series } from '../../telemetry/metrics.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import type { KnownServers } from '../known-servers.ts';
import { OwnExchange } from '../own-exchange.ts';
import type { Policies } from '../policy/policies.ts';
import type { Target } from '../target.ts';
import { AnswerStore, CachedAnswer, outdated } from './answer-store.ts';
import { type CacheKey, cacheKey, concernedBy, type Subject } from './cache-key.ts';

/** How long after its time an answer may still be shown when the server cannot be asked (C7). */
const STALE_MS = 10 * 60_000;

interface AnswerCacheDeps {
  readonly upstreams: Pick<KnownServers, 'knownCatalog'>;
  readonly dispatch: Dispatch;
  readonly policies: Policies;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** A request in flight whose answer may be kept, unless what it asks for has changed since it began. */
interface Fill {
  readonly subject: Subject;
  /** It is out of date: no caller may wait for it from now on. */
  readonly closed: () => void;
  outdated: boolean;
}

/**
 * Answers of stateless servers, kept and shared as far as the server said so (2026-07-28, server/utilities/caching;
 * proto:C1 to proto:C9), and one request to the server for all callers who want the same at the same time. Only a target
 * that the policies have let through gets a kept answer, at every request (C8). Nothing here fetches of its own accord (C7).
 */
export class AnswerCache {
  readonly #deps: AnswerCacheDeps;
  readonly #store = new AnswerStore();
  readonly #fills = new Set<Fill>();
  /** Requests in flight that others may join, by their callers' own key. */
  readonly #flights = new Map<string, SingleFlight>();
  readonly #answers: Metric<Series>;
  readonly #invalidated: Metric<Series>;

  constructor(deps: AnswerCacheDeps) {
    this.#deps = deps;
    const { metrics } = deps;
    const how = 'Cacheable requests, by how they were answered: hit, miss, coalesced, stale.';
    this.#answers = metrics.counter('trunkline_cache_requests_total', how, ['server', 'result']);
    const gone = 'Kept answers that a notification of their server made invalid.';
    this.#invalidated = metrics.counter('trunkline_cache_invalidated_total', gone, ['server']);
    const entries = metrics.gauge('trunkline_cache_entries', 'Answers of servers that are kept.');
    const bytes = metrics.gauge('trunkline_cache_bytes', 'Bytes of the answers of servers that are kept.');
    metrics.onScrape(() => {
      entries.of().set(this.#store.size);
      bytes.of().set(this.#store.bytes);
    });
  }

  /** A cacheable request to a server: like `Dispatch.call`. */
  call(target: Target, request: Message, exchange: Exchange): Promise<Outcome> {
    const { dispatch, policies } = this.#deps;
    const { server: name } = target;
    const server = target.admitted ? policies.server(name) : null;
    const key = server === null || exchange.cancelled !== null ? null : this.#keyOf(server, request, exchange);
    if (key === null) return dispatch.call(target, request, exchange);
    const now = this.#deps.clock.now();
    const kept = this.#kept(key);
    if (kept?.fresh(now) === true) {
      this.#answers.of(name, 'hit').add();
      return Promise.resolve(answer(kept.at(now)));
    }
    const joined = key.alone ? undefined : this.#flights.get(key.own);
    this.#answers.of(name, joined === undefined ? 'miss' : 'coalesced').add();
    if (joined !== undefined) return joined.join(target, request, exchange);
    if (!key.alone) return this.#sendShared(key, target, request, exchange);
    // Where rounds of input are gone through behind this call, an answer does not show whether it came of one (C5).
    return exchange.takesInputRequired
      ? this.#fill(key, target, request, exchange)
      : dispatch.call(target, request, exchange);
  }

  /** The server says that something it has answered is out of date; null: it may have said so, and was not heard. */
  outdated(server: string, notification: Message | null): void {
    const concerned = concernedBy(notification);
    const concerns = (subject: Subject) => subject.server === server && concerned(subject);
    const count = this.#store.deleteAll(concerns);
    this.#outdate(concerns);
    if (count > 0) this.#invalidated.of(server).add(count);
  }

  /** Memory is scarce: what can be asked for again is not kept. */
  shrink(): void {
    this.#store.clear();
  }

  /** Definitions or rights are others: what was kept under the old ones is forgotten. */
  clear(): void {
    this.#store.clear();
    this.#outdate(() => true);
  }

  /** A notification reaches what is being fetched before it has come (C6). */
  #outdate(concerns: (subject: Subject) => boolean): void {
    for (const fill of this.#fills) {
      if (fill.outdated || !concerns(fill.subject)) continue;
      fill.outdated = true;
      fill.closed();
    }
  }

  /** Null where answers are not kept: what speaks no cache hints, and where the operator wants none. */
  #keyOf(server: Server, request: Message, { client }: Exchange): CacheKey | null {
    if (!server.cache || this.#deps.upstreams.knownCatalog(server.name, client)?.handshake.era !== 'stateless')
      return null;
    return cacheKey(server, request, client);
  }

  #kept(key: CacheKey): CachedAnswer | null {
    return this.#store.get(key.own) ?? this.#store.get(key.shared);
  }

  /** Sends it for all who want it until the answer comes. */
  #sendShared(key: CacheKey, target: Target, request: Message, exchange: Exchange): Promise<Outcome> {
    const flight: SingleFlight = new SingleFlight(request, exchange, () => this.#discard(key, flight));
    const waiting = flight.join(target, request, exchange);
    this.#flights.set(key.own, flight);
    void this.#fill(key, target, request, flight, () => this.#discard(key, flight)).then((outcome) =>
      this.#arrived(key, flight, outcome),
    );
    return waiting;
  }

  #arrived(key: CacheKey, flight: SingleFlight, outcome: Outcome): void {
    this.#discard(key, flight);
    const shared =
      outcome.kind === 'failure' || outcome.message.kind === 'error' || resultType(outcome.message) === 'complete';
    for (const { target, request, exchange, settle } of flight.takeWaiters()) {
      // What the server wants to know it asks each caller: its question is good for the one who began alone.
      if (shared || (request === flight.request && exchange.takesInputRequired)) settle(outcome);
      else void this.#deps.dispatch.call(target, request, exchange).then(settle);
    }
  }

  /** No caller can join it any more. */
  #discard(key: CacheKey, flight: SingleFlight): void {
    if (this.#flights.get(key.own) === flight) this.#flights.delete(key.own);
  }

  /** Sends it and keeps the answer as far as that is allowed. */
  async #fill(
    key: CacheKey,
    target: Target,
    request: Message,
    exchange: Exchange,
    closed = () => {},
  ): Promise<Outcome> {
    const fill: Fill = { subject: key.subject, closed, outdated: false };
    this.#fills.add(fill);
    try {
      const outcome = await this.#deps.dispatch.call(target, request, exchange);
      if (outcome.kind === 'failure') return this.#instead(key, outcome);
      return this.#answered(key, outcome.message, fill.outdated) ?? outcome;
    } finally {
      this.#fills.delete(fill);
    }
  }

  /** Keeps an answer, or forgets what it shows to be out of date. What is to be said instead of it; null for itself. */
  #answered(key: CacheKey, message: Message, late: boolean): Outcome | null {
    if (message.era !== 'stateless') return null;
    const complete = message.kind === 'result' && resultType(message) === 'complete';
    // What is kept now may be newer than this.
    if (late) return complete ? answer(outdated(message)) : null;
    this.#forget(key);
    // A cursor that is not taken any more: the pages belong to a list that is gone.
    if (message.kind === 'error' && key.subject.continued) {
      const { server, method } = key.subject;
      this.#store.deleteAll((subject) => subject.server === server && subject.method === method);
    }
    if (!complete) return null;
    const { ttlMs, cacheScope, ttl } = cacheHints(message.bytes, message.bodyStart, message.bodyEnd);
    if (ttl === null || ttlMs === 0) return null;
    const kept = new CachedAnswer(key.subject, message, ttl, this.#deps.clock.now() + ttlMs);
    this.#store.put(cacheScope === 'public' ? key.shared : key.own, kept);
    return null;
  }

  #forget(key: CacheKey): void {
    this.#store.delete(key.own);
    this.#store.delete(key.shared);
  }

  /** The server could not be asked: what it said last is better than nothing, for a while. */
  #instead(key: CacheKey, failed: Extract<Outcome, { kind: 'failure' }>): Outcome {
    const kept = this.#kept(key);
    const now = this.#deps.clock.now();
    if (kept === null || failed.error.outcome === 'REFUSED' || failed.error.code === 'CANCELLED') return failed;
    if (now >= kept.expiresAt + STALE_MS) {
      this.#forget(key);
      return failed;
    }
    this.#answers.of(key.subject.server, 'stale').add();
    return answer(kept.at(now));
  }
}

/** A caller's request that waits for the flight's answer. */
interface SingleFlightWaiter {
  readonly target: Target;
  readonly request: Message;
  readonly exchange: Exchange;
  readonly settle: (outcome: Outcome) => void;
}

/**
 * One request to a server that several callers wait for. Each of them may cancel, and the others still get the answer; when
 * the last one has left, the server gets the cancellation.
 */
class SingleFlight extends OwnExchange {
  /** A question of the server's ends the flight: it is the affair of each caller alone. */
  override readonly takesInputRequired = true;
  readonly sealsInput: boolean;
  readonly #abandoned: () => void;
  readonly #waiters = new Set<SingleFlightWaiter>();

  /** `abandoned` is called when the last caller has left. */
  constructor(request: Message, first: Exchange, abandoned: () => void) {
    super(first.id, request, first.client);
    this.sealsInput = first.sealsInput === true;
    this.#abandoned = abandoned;
  }

  join(target: Target, request: Message, exchange: Exchange): Promise<Outcome> {
    return new Promise((settle) => {
      const waiter = { target, request, exchange, settle };
      if (exchange.cancelled === null) {
        this.#waiters.add(waiter);
        exchange.onCancel = (reason) => this.#leave(waiter, reason);
      } else this.#leave(waiter, exchange.cancelled);
    });
  }

  /** Those who still wait, for the last time. */
  takeWaiters(): readonly SingleFlightWaiter[] {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const { exchange } of waiters) exchange.onCancel = null;
    return waiters;
  }

  override emit(notification: Message): void {
    for (const { exchange } of this.#waiters) exchange.emit(notification);
  }

  override ask(request: Message): Promise<Message> {
    return Promise.reject(
      new GatewayError('MISSING_CAPABILITY', `there is no one client to ask for ${request.method}`),
    );
  }

  #leave(waiter: SingleFlightWaiter, reason: string): void {
    this.#waiters.delete(waiter);
    waiter.exchange.onCancel = null;
    waiter.settle(
      failure(new GatewayError('CANCELLED', 'the call was cancelled', { outcome: 'UNKNOWN', retryable: false })),
    );
    if (this.#waiters.size > 0 || this.cancelled !== null) return;
    this.#abandoned();
    this.cancel(reason);
  }
}

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

/** How long after its expiry an answer may still be used if the server cannot be reached (C7). */
const STALE_MS = 10 * 60_000;

interface AnswerCacheDeps {
  readonly upstreams: Pick<KnownServers, 'knownCatalog'>;
  readonly dispatch: Dispatch;
  readonly policies: Policies;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** A request in flight whose answer is cached unless a notification makes it outdated before. */
interface Fill {
  readonly subject: Subject;
  /** Called when the request becomes outdated: no further caller may join it. */
  readonly closed: () => void;
  outdated: boolean;
}

/**
 * Caches answers of stateless servers as their hints allow (2026-07-28, server/utilities/caching; proto:C1 to proto:C9), and
 * coalesces equal requests of several callers in flight into one. The policies admit every request before it gets a cached
 * answer (C8). The cache never fetches on its own (C7).
 */
export class AnswerCache {
  readonly #deps: AnswerCacheDeps;
  readonly #store = new AnswerStore();
  readonly #fills = new Set<Fill>();
  /** Requests in flight that other callers may join, by `CacheKey.own`. */
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

  /** Like `Dispatch.call`, for cacheable requests. */
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
    // If upstream runs input rounds within this call, the answer does not show whether it depends on one (C5).
    return exchange.takesInputRequired
      ? this.#fill(key, target, request, exchange)
      : dispatch.call(target, request, exchange);
  }

  /** Drops the answers that the server's notification concerns; null: all of the server, as a notification may be lost. */
  invalidate(server: string, notification: Message | null): void {
    const concerned = concernedBy(notification);
    const concerns = (subject: Subject) => subject.server === server && concerned(subject);
    const count = this.#store.deleteAll(concerns);
    this.#outdate(concerns);
    if (count > 0) this.#invalidated.of(server).add(count);
  }

  /** Drops all cached answers, because memory is scarce. */
  shrink(): void {
    this.#store.clear();
  }

  /** Definitions or rights changed: drops all answers, and does not cache those in flight. */
  clear(): void {
    this.#store.clear();
    this.#outdate(() => true);
  }

  /** Marks requests in flight as outdated (C6). */
  #outdate(concerns: (subject: Subject) => boolean): void {
    for (const fill of this.#fills) {
      if (fill.outdated || !concerns(fill.subject)) continue;
      fill.outdated = true;
      fill.closed();
    }
  }

  /** Returns null if the answer is not cached: a stateful server, a disabled cache, or no key. */
  #keyOf(server: Server, request: Message, { client }: Exchange): CacheKey | null {
    if (!server.cache || this.#deps.upstreams.knownCatalog(server.name, client)?.handshake.era !== 'stateless')
      return null;
    return cacheKey(server, request, client);
  }

  #kept(key: CacheKey): CachedAnswer | null {
    return this.#store.get(key.own) ?? this.#store.get(key.shared);
  }

  /** Sends one request for all callers that ask the same until the answer arrives. */
  #sendShared(key: CacheKey, target: Target, request: Message, exchange: Exchange): Promise<Outcome> {
    const flight: SingleFlight = new SingleFlight(request, exchange, () => this.#discard(key, flight));
    const waiting = flight.join(target, request, exchange);
    this.#flights.set(key.own, flight);
    const filled = this.#fill(key, target, request, flight, () => this.#discard(key, flight));
    filled.then(
      (outcome) => this.#arrived(key, flight, outcome),
      // A defect: each waiter's own request ends with it.
      () => {
        this.#discard(key, flight);
        for (const { settle } of flight.takeWaiters()) settle(filled);
      },
    );
    return waiting;
  }

  #arrived(key: CacheKey, flight: SingleFlight, outcome: Outcome): void {
    this.#discard(key, flight);
    const shared =
      outcome.kind === 'failure' || outcome.message.kind === 'error' || resultType(outcome.message) === 'complete';
    for (const { target, request, exchange, settle } of flight.takeWaiters()) {
      // An input request concerns one caller: the first one gets it if it takes it; the others send requests of their own.
      if (shared || (request === flight.request && exchange.takesInputRequired)) {
        flight.recordIn(exchange);
        settle(outcome);
      } else settle(Promise.resolve().then(() => this.#deps.dispatch.call(target, request, exchange)));
    }
  }

  /** Closes the flight to further callers. */
  #discard(key: CacheKey, flight: SingleFlight): void {
    if (this.#flights.get(key.own) === flight) this.#flights.delete(key.own);
  }

  /** Sends the request and caches the answer if that is allowed. */
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

  /** Caches an answer, or drops entries that it shows to be outdated. Returns the outcome to use instead; null for none. */
  #answered(key: CacheKey, message: Message, late: boolean): Outcome | null {
    if (message.era !== 'stateless') return null;
    const complete = message.kind === 'result' && resultType(message) === 'complete';
    // The cached answer may be newer than this one.
    if (late) return complete ? answer(outdated(message)) : null;
    this.#forget(key);
    // The server refused a cursor: the cached pages are of an outdated list.
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

  /** The server could not be reached: returns its last answer for up to `STALE_MS` after the expiry. */
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
  readonly settle: (outcome: Outcome | Promise<Outcome>) => void;
}

/**
 * One request to a server that several callers wait for. Each of them may cancel, and the others still get the answer; when the
 * last one cancels, the server gets the cancellation.
 */
class SingleFlight extends OwnExchange {
  /** An input request ends the flight, because it concerns each caller separately. */
  override readonly takesInputRequired = true;
  readonly sealsInput: boolean;
  readonly #abandoned: () => void;
  readonly #waiters = new Set<SingleFlightWaiter>();

  /** `abandoned` is called when the last caller has cancelled. */
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

  /** Removes and returns the callers that still wait. */
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
    this.recordIn(waiter.exchange);
    waiter.settle(
      failure(new GatewayError('CANCELLED', 'the call was cancelled', { outcome: 'UNKNOWN', retryable: false })),
    );
    if (this.#waiters.size > 0 || this.cancelled !== null) return;
    this.#abandoned();
    this.cancel(reason);
  }
}

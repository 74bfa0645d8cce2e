import type { Catalog } from '../catalog/catalog.ts';
import type { ClientProfile, Principal } from '../model/client-profile.ts';
import type { Endpoint, Exchange, Exchanges } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { answer, failure, isForOneCaller, type Outcome, replaceAnswer } from '../model/outcome.ts';
import type {
  ConnectionChange,
  StateLoss,
  SubscribedAgain,
  SubscribedResource,
  UpstreamEvents,
} from '../model/ports.ts';
import type { ListKind, ServerCatalog } from '../model/server-catalog.ts';
import type { ServerStatus } from '../model/server-state.ts';
import { resultToStateless } from '../protocol/stateless/to-stateless.ts';
import { endSpan } from '../protocol/trace-context.ts';
import { sessionLabel } from '../telemetry/session-label.ts';
import type { AccessView } from './access-view.ts';
import type { Drift } from './drift/drift.ts';
import { ExchangeRecord } from './exchange-record.ts';
import { LargeRequests } from './large-requests.ts';
import { assemble, type GatewayDeps, type Parts } from './parts.ts';
import { refuseAccess } from './policy/access.ts';
import type { HandshakeView } from './resolve/resolver.ts';
import { updateOf } from './resource-updates.ts';
import type { TaskOversight } from './tasks/task-oversight.ts';

export type { GatewayDeps } from './parts.ts';

/** Notifications of clients that the edge handles: the handshake, and the cancellation of its exchanges. */
const OF_THE_EDGE: ReadonlySet<string> = new Set(['notifications/initialized', 'notifications/cancelled']);

/** A client of one server depends on that server, and servers may take long to start. */
const ONE_SERVER_WAIT_MS = 30_000;

/**
 * The core: one exchange in, one outcome out. Resolves names, evaluates the policies, dispatches to the upstreams and maps the
 * answer back. Knows neither HTTP nor processes, and of eras only which one a client uses.
 *
 * Answers state the era of their format (`Message.era`) and have a placeholder id: the edge translates the format and puts in
 * the client's id (`protocol/splice.withId`).
 */
export class Gateway implements Exchanges, UpstreamEvents {
  readonly #deps: GatewayDeps;
  readonly #serverInfo: string;
  readonly #record: ExchangeRecord;
  readonly #large = new LargeRequests();
  #assembled: Parts | null = null;
  readonly #askingLogin = new Set<string>();
  /** By server, the drift at the last report to `listChanged`. */
  readonly #reportedDrift = new Map<string, string>();

  constructor(deps: GatewayDeps) {
    this.#deps = deps;
    this.#serverInfo = JSON.stringify(deps.info);
    this.#record = new ExchangeRecord(deps);
  }

  /** The approved definitions, and what differs from them. */
  get drift(): Drift {
    return this.#parts.drift;
  }

  /** What callers may use. */
  get access(): AccessView {
    return this.#parts.access;
  }

  /** The tasks of all callers. */
  get tasks(): TaskOversight {
    return this.#parts.tasks.oversight;
  }

  /** Inspects a server that was listed. Resolves when clients may see it; never rejects. */
  async inspect(catalog: ServerCatalog): Promise<void> {
    await this.#parts.drift.inspect(catalog);
    void this.#reportDrift(catalog.server).catch(() => {});
  }

  /** Reports drift only if it changed, because servers are listed often. */
  async #reportDrift(server: string): Promise<void> {
    const { listChanged } = this.#deps;
    if (listChanged === undefined) return;
    const { waiting, findings } = await this.#parts.drift.report(server);
    const shown = waiting.map(({ list, key, change, digest }) => [list, key, change, digest]);
    const now = JSON.stringify([shown, findings.length]);
    const before = this.#reportedDrift.get(server) ?? '[[],0]';
    this.#reportedDrift.set(server, now);
    if (now !== before) listChanged('drift', server);
  }

  /** Assembled at the first use, because the modules on both sides need the gateway first. */
  get #parts(): Parts {
    this.#assembled ??= assemble(this.#deps, this.#serverInfo);
    return this.#assembled;
  }

  run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const span = this.#record.span(exchange, endpoint);
    const from = this.#deps.clock.turnNow();
    const running = this.#large.isLarge(exchange)
      ? this.#runLarge(exchange, endpoint, from)
      : this.#run(exchange, endpoint, from);
    return span === null ? running : endSpan(span, running);
  }

  #runLarge(exchange: Exchange, endpoint: Endpoint, from: number): Promise<Outcome> {
    const giveBack = this.#large.take(exchange);
    if (typeof giveBack === 'function') return this.#run(exchange, endpoint, from).finally(giveBack);
    return Promise.resolve(this.#record.ended(exchange, endpoint, failure(giveBack), from));
  }

  /** Uses one `then` for everything that depends on the outcome, because each one creates a promise for every call. */
  #run(exchange: Exchange, endpoint: Endpoint, from: number): Promise<Outcome> {
    const record = this.#record;
    const failed = (cause: unknown): Outcome => record.ended(exchange, endpoint, this.#defect(exchange, cause), from);
    try {
      const { sessions, requests, loginRequests } = this.#parts;
      sessions.see(exchange.client, endpoint);
      const ends = (outcome: Outcome): Outcome =>
        record.ended(exchange, endpoint, this.#named(exchange, endpoint, outcome), from);
      return requests.run(exchange, endpoint).then((outcome) => {
        if (outcome.kind !== 'failure' || outcome.error.code !== 'AUTH_REQUIRED') return ends(outcome);
        const again = () => requests.run(exchange, endpoint);
        return loginRequests.afterLogin(exchange, endpoint, outcome, again).then(ends, failed);
      }, failed);
    } catch (cause) {
      return Promise.resolve(failed(cause));
    }
  }

  /** The endpoint's handshake for this client. The aggregate waits at most `waitMs` for servers that were never listed. */
  handshake(
    endpoint: Endpoint,
    client: ClientProfile,
    waitMs = this.#patience(endpoint),
  ): Promise<HandshakeView | GatewayError> {
    return this.#parts.requests.resolverOf(endpoint).handshake(endpoint, client, waitMs);
  }

  /** Sends an embedding program's request to the server itself, also a `ping`, which endpoints answer themselves. */
  ask(server: string, exchange: Exchange): Promise<Outcome> {
    return this.#parts.dispatch.callServer(server, exchange.request, exchange);
  }

  /** The aggregate's catalog for this client; waits at most `waitMs` for servers that were never listed, or for the server `only` alone. */
  catalog(client: ClientProfile, waitMs: number, only: string | null = null): Promise<Catalog> {
    return this.#parts.catalogs.ready(client, waitMs, only);
  }

  /** Forwards a notification of the client that belongs to no exchange in flight, only to the client's own connections. */
  notify(endpoint: Endpoint, message: Message, client: ClientProfile): void {
    // Some servers run anything else as a request, which no policy has seen.
    if (OF_THE_EDGE.has(message.method) || !message.method.startsWith('notifications/')) return;
    const { upstreams, catalogs } = this.#parts;
    if (endpoint.kind === 'server') {
      if (refuseAccess(client.principal, endpoint.server) === null) upstreams.notify(endpoint.server, message, client);
      return;
    }
    for (const { server } of catalogs.of(client).members) {
      if (upstreams.ownsConnection(server, client)) upstreams.notify(server, message, client);
    }
  }

  /** The session unsubscribed from this resource through another node. */
  givenUp(sessionId: string, server: string, uri: string): void {
    this.#parts.subscriptions.givenUp(sessionId, server, uri);
  }

  /** Takes over the subscription of a lost node or process for a session that is here now. Never rejects. */
  subscribeAgain(client: ClientProfile, resource: SubscribedResource): Promise<SubscribedAgain> {
    return this.#parts.subscriptions.resubscribe(client, resource).catch(() => 'later');
  }

  /** Notifies the session that the resource of this exposed URI may have changed. */
  mayHaveChanged(sessionId: string, exposed: string): void {
    this.#parts.streams.deliver(sessionId, updateOf(exposed, 'stateful'));
  }

  /** The client's session has ended: releases its state, and its own connections to servers. */
  sessionEnded(sessionId: string): void {
    const { sessions, catalogs, subscriptions, tasks, upstreams, elsewhere } = this.#parts;
    sessions.delete(sessionId);
    catalogs.forgetSession(sessionId);
    tasks.sessionEnded(sessionId);
    subscriptions.deleteSession(sessionId);
    upstreams.releaseSession(sessionId);
    this.#deps.onSessionEnded?.(sessionId);
    elsewhere?.sessionEnded(sessionId);
  }

  /**
   * Called after upstreams and authenticator have the new desired state: callers get the rights that `current` returns, and
   * clients whose lists differ are notified. `filtered`: servers whose tool filter changed.
   */
  desiredChanged(current: (principalId: string) => Principal | null, filtered: Iterable<string> = []): void {
    const { sessions, listens, announcer, catalogs, cache, drift } = this.#parts;
    const names = new Set(this.#deps.upstreams.servers().map(({ name }) => name));
    for (const name of this.#reportedDrift.keys()) if (!names.has(name)) this.#reportedDrift.delete(name);
    cache.clear();
    drift.desiredChanged();
    catalogs.invalidate();
    sessions.reauthorize(current);
    listens.reauthorize(current);
    announcer.everything(filtered);
  }

  /** Memory is scarce: drops the cache. */
  shrink(): void {
    this.#parts.cache.shrink();
  }

  /** The gateway stops: ends listens and pending logins; other calls in flight continue. */
  drain(): void {
    this.#parts.announcer.drain();
    this.#parts.listens.drain();
    this.#parts.loginRequests.drain();
  }

  close(): void {
    this.#parts.announcer.close();
    this.#parts.tasks.close();
    this.#parts.watches.close();
    this.#parts.sharedListens.close();
    this.#parts.listens.drain();
  }

  /** `key` identifies a connection that is not one session's. */
  notification(server: string, sessionId: string | null, message: Message, key: string = sessionId ?? 'shared'): void {
    this.#parts.events.notification(server, sessionId, message, key);
  }

  listsAnnounced(server: string, key: string, methods: readonly string[]): void {
    this.#parts.announcer.renewed(server, key, methods);
  }

  connectionChanged(server: string, key: string, change: ConnectionChange): void {
    const { watches, announcer } = this.#parts;
    watches.connectionChanged(server, key, change);
    if (change === 'renewed' || change === 'missed') announcer.renewed(server, key);
  }

  nodeSilent(servedThere: (server: string, client: ClientProfile) => boolean): void {
    this.#parts.watches.nodeSilent(servedThere);
  }

  instancesGained(servers: ReadonlySet<string>): void {
    this.#parts.watches.instancesGained(servers);
  }

  request(
    server: string,
    sessionId: string | null,
    message: Message,
    key: string = sessionId ?? 'shared',
  ): Promise<Message> {
    return this.#parts.events.request(server, sessionId, message, key);
  }

  contentChanged(server: string, notification: Message | null): void {
    this.#parts.cache.invalidate(server, notification);
  }

  catalogChanged(server: string, fingerprint: string, lists: readonly ListKind[], key: string | null = null): void {
    if (key === null) this.#parts.catalogs.invalidate();
    else this.#parts.catalogs.setDivergent(key);
    if (lists.length === 0) return;
    this.#parts.announcer.changed(server, fingerprint, lists, key);
    this.#deps.listChanged?.('tools', server);
  }

  listedElsewhere(server: string): void {
    this.#parts.announcer.announceAgain(server);
  }

  stateLost(server: string, sessionId: string, cause: StateLoss): void {
    this.#deps.logger.warn('state_lost', { server, session: sessionLabel(sessionId) });
    this.#parts.events.stateLost(server, sessionId, cause);
  }

  statusChanged(server: string, status: ServerStatus): void {
    this.#deps.logger.debug('server_status', { server, state: status.state, health: status.health });
    // If nothing else is known of the server, its login tool is listed from now on.
    if (status.state !== 'auth_required') this.#askingLogin.delete(server);
    else if (!this.#askingLogin.has(server)) {
      this.#askingLogin.add(server);
      this.#parts.announcer.changed(server, null, ['tools']);
    }
  }

  #patience({ kind }: Endpoint): number {
    const { firstListWaitMs } = this.#deps.desired.state;
    return kind === 'server' ? Math.max(firstListWaitMs, ONE_SERVER_WAIT_MS) : firstListWaitMs;
  }

  /** Adds the missing `serverInfo` to the answer: the server's on its own endpoint, the gateway's on the aggregate. */
  #named({ request, client }: Exchange, endpoint: Endpoint, outcome: Outcome): Outcome {
    if (!isUnnamed(request, outcome)) return outcome;
    const own = endpoint.kind === 'aggregate' ? null : this.#parts.upstreams.knownCatalog(endpoint.server, client);
    const serverInfo = endpoint.kind === 'aggregate' ? this.#serverInfo : (own?.handshake.serverInfo ?? null);
    const named = resultToStateless(outcome.message, request.method, serverInfo, isForOneCaller(request.method));
    return answer(replaceAnswer(outcome.message, named, request.method));
  }

  #defect(exchange: Exchange, cause: unknown): Outcome {
    this.#deps.logger.error('exchange_failed', { request: exchange.id, error: String(cause) });
    return failure(new GatewayError('INTERNAL', 'Internal error', { cause }));
  }
}

/**
 * Whether a stateful server's result goes to a stateless client. Stateful revisions name the server only in the handshake, and
 * every result of 2026-07-28 should (basic §_meta). The edge cannot add the name, because it knows no server's handshake.
 */
function isUnnamed(request: Message, outcome: Outcome): outcome is Extract<Outcome, { kind: 'answer' }> {
  if (request.era === 'stateful' || outcome.kind === 'failure') return false;
  return outcome.message.kind === 'result' && outcome.message.era === 'stateful';
}

/** The part of the gateway that the edges use. */
export type Core = Pick<Gateway, 'run' | 'handshake' | 'notify' | 'sessionEnded'>;

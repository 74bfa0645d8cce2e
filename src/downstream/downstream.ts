import type { Core } from '../gateway/gateway.ts';
import { keyRevoked } from '../gateway/policy/access.ts';
import { StateSealer } from '../gateway/sealer.ts';
import type { RequestContext } from '../http/listener/request-context.ts';
import type { RouteTable } from '../http/listener/route-table.ts';
import { type ClientProfile, mayUse, type Principal } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { Authenticator, ClientStreams, EventLog, SessionRecords, Upstreams } from '../model/ports.ts';
import type { Random } from '../model/random.ts';
import { sealingOf } from '../model/sealing.ts';
import type { EventSink, PostAnswer, StreamCopies, StreamPost } from '../model/stream-copies.ts';
import type { Wires } from '../model/wire-tap.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { ClientTransportDeps } from './client-transport-deps.ts';
import { Endpoints } from './endpoints/endpoints.ts';
import { Fingerprints } from './endpoints/fingerprints.ts';
import { renderRpc } from './endpoints/send.ts';
import { Gate } from './identity/gate.ts';
import { PendingInputRequests } from './pending-input/pending-input-requests.ts';
import type { ClientExchange } from './session/client-exchange.ts';
import type { ClientSession } from './session/client-session.ts';
import { DelayQueue } from './session/delay-queue.ts';
import type { OtherNodes } from './session/other-nodes.ts';
import { SessionIntake, type SessionRelay } from './session/session-intake.ts';
import { SessionTable } from './session/session-table.ts';
import { noStream, StandaloneStreams } from './session/standalone-streams.ts';
import { LegacySse } from './stateful/legacy-sse.ts';
import { StatefulHandler } from './stateful/stateful-handler.ts';
import { StatelessHandler } from './stateless/stateless-handler.ts';
import { StdioHandler, type StdioStreams } from './stdio/stdio.ts';
import { StreamableHttp } from './streamable-http.ts';
import { registerSubRegistry } from './sub-registry.ts';

export interface DownstreamDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly core: Core;
  readonly metrics: Metrics;
  readonly authenticator: Authenticator;
  readonly upstreams: Pick<Upstreams, 'knownCatalog'>;
  readonly records: SessionRecords;
  readonly events: EventLog;
  /** Returns the current desired state. */
  readonly state: () => DesiredState;
  /** How long an answer may take before it becomes a stream; tests shorten it. */
  readonly patienceMs?: number;
  readonly statelessPatienceMs?: number;
  /** Keys of 32 random bytes each. The first seals `requestState`; any of them opens it. */
  readonly keys: readonly Buffer[];
  /** Whether memory is too low to open another session (F40). */
  readonly memoryScarce: () => boolean;
  /** Called when a client opens or resumes a GET stream of this session. */
  readonly onStreamOpened?: (sessionId: string) => void;
  /** The other nodes; absent without a cluster. */
  readonly others?: OtherNodes;
  /** Replicates the events of this node's streams, so that other nodes can serve them after this node fails. */
  readonly copies?: StreamCopies;
  /** Forwards messages of a session's client to other nodes; absent without a cluster. */
  readonly relay?: SessionRelay;
  readonly wires: Wires;
}

/** When a pending answer becomes an SSE stream with a first event id (issue A, Relay). */
const PATIENCE_MS = 1_000;
/** Stateless streams need no event id, only keep-alive comments before a proxy times out. */
const STATELESS_PATIENCE_MS = 5_000;

/**
 * All transports for clients: Streamable HTTP of both eras, HTTP+SSE, stdio. Owns the client sessions and their streams,
 * and is the rest of the gateway's way to a session's client.
 */
export class Downstream implements ClientStreams {
  readonly sessions: SessionTable;
  readonly endpoints: Endpoints;
  readonly #deps: DownstreamDeps;
  readonly #parts: ClientTransportDeps;
  readonly #stateful: StatefulHandler;
  readonly #stateless: StatelessHandler;
  readonly #http: StreamableHttp;
  readonly sse: LegacySse;
  readonly #pipes = new Set<StdioHandler>();
  #draining = false;

  constructor(deps: DownstreamDeps) {
    this.#deps = deps;
    const { clock, random, core, state, keys, others } = deps;
    const fingerprints = new Fingerprints();
    const draining = (): boolean => this.#draining;
    const settings = () => state().sessions;
    const onEnded = (sessionId: string) => core.sessionEnded(sessionId);
    this.endpoints = new Endpoints(state);
    const name = 'mcp_server_session_duration_seconds';
    const durations = deps.metrics.histogram(name, 'Sessions of clients that ended here, in seconds.', [
      'mcp_protocol_version',
    ]);
    this.sessions = new SessionTable({ ...deps, fingerprints, settings, onEnded, durations });
    const sealing = sealingOf(keys, (key) => new StateSealer({ key, clock, random }));
    const parts: ClientTransportDeps = {
      ...deps,
      gate: new Gate(deps.authenticator, this.endpoints),
      draining,
      settings,
      sessions: this.sessions,
      endpoints: this.endpoints,
      intake: new SessionIntake(core, this.sessions, deps.wires, deps.relay),
      fingerprints,
      pendingInput: new PendingInputRequests({ clock, random, sealing, others }),
      prefix: others?.self ?? random.hex(3),
    };
    this.#parts = parts;
    const statelessPatience = new DelayQueue(clock, deps.statelessPatienceMs ?? STATELESS_PATIENCE_MS);
    this.#stateless = new StatelessHandler({ ...parts, state, patience: statelessPatience });
    this.#stateful = new StatefulHandler({ ...parts, patience: new DelayQueue(clock, deps.patienceMs ?? PATIENCE_MS) });
    this.#http = new StreamableHttp({
      ...parts,
      logger: deps.logger,
      stateful: this.#stateful,
      stateless: this.#stateless,
    });
    this.sse = new LegacySse(parts);
  }

  /** Handles a message that a client sent to another node and that may belong to a call or ask of this node. */
  fromElsewhere(sessionId: string, message: Message): void {
    const session = this.sessions.get(sessionId);
    if (session === undefined) return;
    if (message.kind === 'notification') this.#parts.intake.findLocal(session, message);
    else this.#parts.intake.answerLocal(session, message);
  }

  /** Handles a request that a stateless client sent to another node with a `requestState` of this one. Never rejects. */
  returned(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    return this.#stateless.runForwarded(exchange, endpoint);
  }

  /** Resumes a stream of this node for a client that reconnected to another node; false if this node has no such stream. */
  resumeFor(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean> {
    return this.#stateful.resumeFor(sessionId, afterId, open);
  }

  /** Handles a message that the client of an HTTP+SSE stream of this node posted to another node. */
  posted(post: StreamPost): PostAnswer {
    return this.sse.acceptPost(post);
  }

  /** Calls in flight of all clients. */
  get inFlight(): number {
    let count = this.#stateless.intake.exchanges.size;
    for (const handler of this.#pipes) count += handler.inFlight;
    for (const session of this.sessions.values()) count += session.exchanges.size;
    return count;
  }

  /** Calls of stateless clients that wait until their clients retry with the input that the server asked for. */
  get waitingForInput(): number {
    return this.#parts.pendingInput.waitingForInput;
  }

  /** Adds the client-facing paths to a listener. */
  register(routes: RouteTable): void {
    const options = { render: renderRpc, sheds: true };
    const mcp = (server: (context: RequestContext) => string | null) => ({
      GET: (context: RequestContext) => this.#http.get(context, server(context)),
      POST: (context: RequestContext) => this.#http.post(context, server(context)),
      DELETE: (context: RequestContext) => this.#http.delete(context, server(context)),
    });
    const add = (prefix: string, server: (context: RequestContext) => string | null) => {
      routes.add(`${prefix}/mcp`, mcp(server), options);
      routes.add(`${prefix}/sse`, { GET: (context) => this.sse.open(context, server(context)) }, options);
      routes.add(`${prefix}/message`, { POST: (context) => this.sse.post(context, server(context)) }, options);
    };
    add('', () => null);
    registerSubRegistry(routes, this.#deps);
    add('/servers/{name}', (context) => context.param);
  }

  /** Serves the client that started this process, as a local server on its pipes. */
  stdio(streams: StdioStreams): StdioHandler {
    const { maxBodyBytes: maxMessageBytes } = this.#deps.state().listen;
    const handler = new StdioHandler(streams, this.#parts, maxMessageBytes);
    this.#pipes.add(handler);
    void handler.closed.then(() => this.#pipes.delete(handler));
    return handler;
  }

  /** The session's client; null if this node does not hold the session. */
  clientOf(sessionId: string): ClientProfile | null {
    return this.sessions.get(sessionId)?.client ?? null;
  }

  /** Whether the session's client holds a stream open at this node. */
  listening(sessionId: string): boolean {
    return this.sessions.get(sessionId)?.channel?.open === true;
  }

  /** Whether the session's client had a stream open at this node, holds none now, and has no request in flight. */
  clientGone(sessionId: string): boolean {
    const session = this.sessions.get(sessionId);
    return (
      session?.channel instanceof StandaloneStreams && session.channel.disconnected && session.exchanges.size === 0
    );
  }

  /** The sessions whose clients hold a stream open at this node. */
  *listeners(): Generator<string> {
    for (const { id, channel } of this.sessions.values()) if (channel?.open === true) yield id;
  }

  deliver(sessionId: string, notification: Message, server?: string): void {
    const session = this.sessions.get(sessionId);
    if (session === undefined) return;
    session.channel ??= new StandaloneStreams(session, this.#parts);
    session.channel.deliver(notification, server);
  }

  ask(sessionId: string, request: Message, server?: string): Promise<Message> {
    const channel = this.sessions.get(sessionId)?.channel;
    if (channel === undefined || channel === null) return Promise.reject(noStream());
    return channel.ask(request, server);
  }

  *sessionsFor(server: string): Generator<{ readonly sessionId: string; readonly endpoint: 'aggregate' | 'server' }> {
    for (const { id, endpoint, client } of this.sessions.values()) {
      const offers = endpoint.kind === 'aggregate' ? mayUse(client.principal, server) : endpoint.server === server;
      if (offers) yield { sessionId: id, endpoint: endpoint.kind };
    }
  }

  /**
   * Applies changed agents. Sessions continue with the current rights of their caller or end without any; listening streams
   * and waiting calls end if the rights of their caller changed, all streams if its key was replaced. Call it after the
   * authenticator has taken the new state.
   */
  reauthorize(current: (principalId: string) => Principal | null): void {
    for (const session of [...this.sessions.values()]) {
      const principal = current(session.client.principal.id);
      const { endpoint } = session;
      if (principal !== null && (endpoint.kind === 'aggregate' || mayUse(principal, endpoint.server))) {
        const before = session.client.principal;
        const revoked = keyRevoked(before, principal);
        // No key opened the connection of a program.
        const { keyDigest, ...keyless } = principal;
        const opened = session.persistent || keyDigest === undefined || before.keyDigest !== undefined;
        session.useAs(opened ? principal : keyless, session.lastUsed);
        if (revoked) this.#disconnect(session);
      } else this.sessions.end(session, 'the caller may not use this any more');
    }
    this.#stateless.reauthorize(current);
    this.#parts.pendingInput.reauthorize(current);
  }

  /** Ends the streams of a session, whose client may resume them with its new key; a session of a single stream ends with it. */
  #disconnect(session: ClientSession): void {
    if (!session.persistent) this.sessions.end(session, 'the key of the caller was replaced');
    if (session.channel instanceof StandaloneStreams) session.channel.disconnect();
    for (const reply of session.replies?.values() ?? []) reply.disconnect();
  }

  /**
   * Starts the shutdown: refuses new sessions and streams, completes listening streams, and disconnects the sessions' GET
   * streams. Calls continue; `inFlight` reaches 0 when the last is answered.
   */
  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#stateless.intake.completeListens('the gateway is stopping');
    for (const handler of this.#pipes) handler.drain('the gateway is stopping');
    for (const { channel } of this.sessions.values()) {
      // The answers of a session with a single wire still have to be sent on that wire.
      if (channel instanceof StandaloneStreams) channel.hangUp();
    }
  }

  /** Ends all calls and closes everything. Resumable sessions stay in the store for the next process. */
  close(): void {
    this.drain();
    for (const exchange of this.#stateless.intake.exchanges.all()) cutShort(exchange);
    for (const handler of this.#pipes) handler.cutShort(cutShort);
    this.#parts.pendingInput.close();
    for (const session of [...this.sessions.values()]) {
      for (const exchange of session.exchanges.all()) cutShort(exchange);
      if (!session.persistent) this.sessions.end(session, 'the gateway is stopping');
    }
    this.sessions.close();
  }
}

/** The call may have run, so its client gets UNKNOWN. */
function cutShort(exchange: ClientExchange): void {
  const error = new GatewayError('UNKNOWN', 'the gateway stopped before the answer came');
  exchange.conclude(failure(error), 'the gateway is stopping');
}

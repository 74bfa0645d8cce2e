import { Dispatch } from '../../src/gateway/dispatch/dispatch.ts';
import { InputStates } from '../../src/gateway/dispatch/input-states.ts';
import { Guards } from '../../src/gateway/drift/guards.ts';
import { Gateway, type GatewayDeps } from '../../src/gateway/gateway.ts';
import { Policies } from '../../src/gateway/policy/policies.ts';
import type { SubscriptionsElsewhere } from '../../src/gateway/subscriptions/subscriptions.ts';
import { ANONYMOUS, type ClientProfile, mayUse, type Principal } from '../../src/model/client-profile.ts';
import type { UserLogins } from '../../src/model/credential-ports.ts';
import { noPins, type Pins } from '../../src/model/drift.ts';
import type { Endpoint, Exchange } from '../../src/model/exchange.ts';
import { GatewayError } from '../../src/model/gateway-error.ts';
import type { Era, Message } from '../../src/model/message.ts';
import { answer, failure, type Outcome } from '../../src/model/outcome.ts';
import type { ClientStreams, TaskRecords, Upstreams } from '../../src/model/ports.ts';
import { systemRandom } from '../../src/model/random.ts';
import type { Server } from '../../src/model/server.ts';
import type { ListKind, ServerCatalog } from '../../src/model/server-catalog.ts';
import type { ServerState, ServerStatus } from '../../src/model/server-state.ts';
import { declares } from '../../src/protocol/client-capabilities.ts';
import { request as composeRequest, result } from '../../src/protocol/compose.ts';
import { CallLog } from '../../src/telemetry/call-log.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { FakeClock } from './fake-clock.ts';
import { catalogFor } from './played-upstreams.ts';
import { type Advertisement, serverCatalog } from './server-catalogs.ts';

/** Of a gateway that persists nothing. */
export const NO_RECORDS: TaskRecords = { load: () => [], put: () => {}, delete: () => {} };

/** Of servers whose policy is `off`. */
export const UNPINNED = { of: noPins, problem: null } as Pins;

export const MCP: Endpoint = { kind: 'aggregate', server: '', path: '/mcp' };

export function endpointOf(server: string): Endpoint {
  return { kind: 'server', server, path: `/servers/${server}/mcp` };
}

/** A dispatch to these servers; it seals no input states. */
export function dispatchTo(upstreams: Upstreams): Dispatch {
  const unused = (): never => {
    throw new Error('no state is sealed in this test');
  };
  const clock = new FakeClock();
  const policies = new Policies({ upstreams, clock, guards: new Guards(UNPINNED, upstreams) });
  const states = new InputStates({ seal: unused, open: unused }, clock);
  return new Dispatch({ upstreams, known: upstreams, policies, states, tracer: null, clock });
}

export function agent(name: string, ...servers: string[]): Principal {
  return { id: `agent:${name}`, name, servers: new Set(servers) };
}

export function client(era: Era, more: Partial<ClientProfile> = {}): ClientProfile {
  return {
    principal: ANONYMOUS,
    sessionId: era === 'stateful' ? 'session-1' : null,
    revision: era === 'stateful' ? '2025-11-25' : '2026-07-28',
    capabilities: '{}',
    fingerprint: '{}',
    info: null,
    logLevel: null,
    handle: null,
    ...more,
  };
}

let exchanges = 0;

/** An exchange that records the notifications and requests that it receives. */
export class BenchExchange implements Exchange {
  readonly id = `x${++exchanges}`;
  readonly request: Message;
  readonly client: ClientProfile;
  readonly takesInputRequired = false;
  readonly paramHeaders: Readonly<Record<string, string>> | null;
  readonly emitted: Message[] = [];
  readonly asked: Message[] = [];
  cancelled: string | null = null;
  onCancel: ((reason: string) => void) | null = null;
  reply: Message | null = null;

  constructor(request: Message, profile: ClientProfile, paramHeaders: Readonly<Record<string, string>> | null = null) {
    this.request = request;
    this.client = profile;
    this.paramHeaders = paramHeaders;
  }

  emit(notification: Message): void {
    this.emitted.push(notification);
  }

  ask(request: Message): Promise<Message> {
    this.asked.push(request);
    if (this.reply === null) return Promise.reject(new GatewayError('MISSING_CAPABILITY', 'cannot be asked'));
    return Promise.resolve(this.reply);
  }

  cancel(reason: string): void {
    this.cancelled = reason;
    this.onCancel?.(reason);
  }
}

export interface Call {
  readonly server: string;
  readonly request: Message;
  readonly exchange: Exchange;
}

export class FakeUpstreams implements Upstreams {
  list: readonly Server[] = [];
  readonly known = new Map<string, ServerCatalog>();
  readonly owned = new Set<string>();
  readonly states = new Map<string, ServerState>();
  readonly calls: Call[] = [];
  readonly notified: { readonly server: string; readonly message: Message }[] = [];
  readonly released: string[] = [];
  readonly waits: { readonly server: string; readonly waitMs: number }[] = [];
  readonly #waiting = new Map<string, ((catalog: ServerCatalog | null) => void)[]>();
  readonly #clock: FakeClock;
  respond: (call: Call) => Outcome | Promise<Outcome> = (call) =>
    answer(result('9', `{"from":"${call.server}"}`, call.request.era));

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  servers(): readonly Server[] {
    return this.list;
  }

  async call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    const call = { server, request, exchange };
    if (!this.list.some(({ name }) => name === server)) {
      return failure(new GatewayError('NOT_SENT', `there is no server ${server}`, { server }));
    }
    this.calls.push(call);
    return this.respond(call);
  }

  notify(server: string, message: Message): void {
    this.notified.push({ server, message });
  }

  knownCatalog(server: string, client: ClientProfile, orOthers = false): ServerCatalog | null {
    return catalogFor(client, orOthers, this.known.get(server));
  }

  catalog(server: string, client: ClientProfile, waitMs: number): Promise<ServerCatalog | null> {
    this.waits.push({ server, waitMs });
    const known = this.knownCatalog(server, client);
    if (known !== null) return Promise.resolve(known);
    if (waitMs <= 0) return Promise.resolve(null);
    return new Promise((resolve) => {
      this.#waiting.set(server, [...(this.#waiting.get(server) ?? []), resolve]);
      this.#clock.after(waitMs, () => resolve(null));
    });
  }

  sessionKey(server: string, { sessionId }: ClientProfile): string {
    return this.owned.has(server) && sessionId !== null ? sessionId : 'shared';
  }

  ownsConnection(server: string): boolean {
    return this.owned.has(server);
  }

  status(server: string): ServerStatus | null {
    const state = this.states.get(server);
    return state === undefined ? null : ({ name: server, state, reason: 'because' } as ServerStatus);
  }

  state(server: string): ServerState | null {
    return this.status(server)?.state ?? null;
  }

  statuses(): readonly ServerStatus[] {
    return [];
  }

  async restart(server: string): Promise<void> {
    if (!this.list.some(({ name }) => name === server)) throw new GatewayError('INVALID_PARAMS', 'no such server');
  }

  releaseSession(sessionId: string): void {
    this.released.push(sessionId);
  }

  /** The server has been listed: every waiting caller gets the catalog. */
  listed(server: string, advertisement: Advertisement): void {
    const catalog = serverCatalog(server, advertisement);
    this.known.set(server, catalog);
    for (const resolve of this.#waiting.get(server) ?? []) resolve(catalog);
    this.#waiting.delete(server);
  }
}

interface OpenSession {
  readonly sessionId: string;
  readonly endpoint: 'aggregate' | 'server';
  /** Of the endpoint, those that the caller may use. */
  readonly servers: readonly string[];
  readonly capabilities?: string;
}

/** The clients of the sessions that a test opens. As `Downstream`, it knows no other session. */
export class FakeStreams implements ClientStreams {
  readonly delivered: { readonly sessionId: string; readonly message: Message }[] = [];
  readonly asked: { readonly sessionId: string; readonly message: Message }[] = [];
  sessions: OpenSession[] = [];
  /** What a client answers, as JSON text of a result. */
  reply: string | GatewayError = '{}';

  deliver(sessionId: string, message: Message): void {
    if (this.#session(sessionId) !== undefined) this.delivered.push({ sessionId, message });
  }

  async ask(sessionId: string, message: Message): Promise<Message> {
    const session = this.#session(sessionId);
    if (session === undefined || !declares(session.capabilities ?? '{}', message)) {
      throw new GatewayError('MISSING_CAPABILITY', `the client did not declare what ${message.method} needs`);
    }
    this.asked.push({ sessionId, message });
    if (this.reply instanceof GatewayError) throw this.reply;
    return result('"an-id-of-the-gateway"', this.reply, 'stateful');
  }

  *sessionsFor(server: string) {
    for (const session of this.sessions) if (session.servers.includes(server)) yield session;
  }

  #session(sessionId: string): OpenSession | undefined {
    return this.sessions.find((session) => session.sessionId === sessionId);
  }
}

/** No user of a caller can sign in anywhere. */
export const NO_LOGINS: UserLogins = { takesUser: () => false, page: async () => null, connectedAt: () => null };

/** A gateway between test doubles, with a manual clock. */
export class GatewayBench {
  readonly clock = new FakeClock();
  readonly upstreams = new FakeUpstreams(this.clock);
  readonly streams = new FakeStreams();
  readonly gateway: Gateway;

  constructor(
    advertised: Record<string, Advertisement | null> = {},
    servers: Record<string, Partial<Server>> = {},
    metrics = new Metrics(),
    more: Partial<GatewayDeps> = {},
    elsewhere: SubscriptionsElsewhere | null = null,
  ) {
    this.gateway = new Gateway({
      clock: this.clock,
      logger: Logger.silent(),
      metrics,
      calls: new CallLog('bench', null, Logger.silent(), 64),
      info: { name: 'trunkline', title: 'Trunkline', version: '0' },
      keys: [Buffer.alloc(32, 3)],
      desired: { state: { firstListWaitMs: 2_000, maxTimeoutMs: 600_000 } },
      pins: UNPINNED,
      taskRecords: NO_RECORDS,
      random: systemRandom,
      logins: NO_LOGINS,
      upstreams: this.upstreams,
      streams: this.streams,
      elsewhere,
      ...more,
    });
    for (const [server, advertisement] of Object.entries(advertised)) {
      if (advertisement !== null) this.upstreams.known.set(server, serverCatalog(server, advertisement));
    }
    this.upstreams.list = Object.keys(advertised)
      .sort()
      .map((name) => serverNamed(name, servers[name]));
  }

  /** Runs one request of a client's. Params as JSON text. */
  run(method: string, params: string | null, more: RunOptions = {}): Promise<Outcome> {
    return this.gateway.run(this.exchange(method, params, more), more.endpoint ?? MCP);
  }

  exchange(method: string, params: string | null, more: RunOptions = {}): BenchExchange {
    const profile = more.client ?? client(more.era ?? 'stateful');
    const era: Era = profile.revision === '2026-07-28' ? 'stateless' : 'stateful';
    this.#opened(profile, more.endpoint ?? MCP);
    return new BenchExchange(composeRequest(method, '"c1"', params, era), profile, more.paramHeaders ?? null);
  }

  /** A session that sends requests is open. */
  #opened({ sessionId, principal, capabilities }: ClientProfile, { kind, server }: Endpoint): void {
    const { sessions } = this.streams;
    if (sessionId === null || sessions.some((session) => session.sessionId === sessionId)) return;
    const usable = this.upstreams.list.map(({ name }) => name).filter((name) => mayUse(principal, name));
    sessions.push({ sessionId, endpoint: kind, servers: kind === 'server' ? [server] : usable, capabilities });
  }

  /** Lists the server anew, and reports the changed kinds. */
  relist(server: string, advertisement: Advertisement, kinds: readonly ListKind[]): void {
    this.upstreams.known.set(server, serverCatalog(server, advertisement));
    this.gateway.catalogChanged(server, '{}', kinds);
  }
}

export interface RunOptions {
  readonly era?: Era;
  readonly client?: ClientProfile;
  readonly endpoint?: Endpoint;
  readonly paramHeaders?: Readonly<Record<string, string>>;
}

/** The parsed result or error of an answer, or the failure. */
export function ended(outcome: Outcome): unknown {
  return outcome.kind === 'answer' ? JSON.parse(outcome.message.body.toString()) : outcome.error;
}

export function serverNamed(name: string, more: Partial<Server> = {}): Server {
  return {
    name,
    transport: { type: 'stdio', command: 'x', args: [], env: {}, inheritEnv: [], cwd: '/' },
    description: null,
    isolation: null,
    isolationHeader: null,
    timeoutMs: 60_000,
    toolTimeoutMs: new Map(),
    retry: 'never',
    trusted: false,
    cache: true,
    probeMs: 30_000,
    start: 'eager',
    enabled: true,
    tools: { include: null, exclude: new Set() },
    limits: { maxMessageBytes: 1, maxProcesses: 1 },
    origin: { file: '', line: 1, column: 1 },
    connectionDigest: name,
    ...more,
  };
}

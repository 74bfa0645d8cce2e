import { Sealer } from '../../src/gateway/sealer.ts';
import { ANONYMOUS, type ClientProfile } from '../../src/model/client-profile.ts';
import { POOL_DEFAULTS, type PoolSettings } from '../../src/model/desired-state.ts';
import type { Exchange } from '../../src/model/exchange.ts';
import { GatewayError } from '../../src/model/gateway-error.ts';
import type { Era, Message } from '../../src/model/message.ts';
import type { Outcome } from '../../src/model/outcome.ts';
import type { ConnectionChange, StateLoss, UpstreamEvents } from '../../src/model/ports.ts';
import { sealingOf } from '../../src/model/sealing.ts';
import type { Server } from '../../src/model/server.ts';
import type { ListKind } from '../../src/model/server-catalog.ts';
import type { ServerState } from '../../src/model/server-state.ts';
import { fingerprint } from '../../src/protocol/canonical.ts';
import { request } from '../../src/protocol/compose.ts';
import { SqliteEraVerdicts, SqliteUpstreamSessions } from '../../src/store/remembered.ts';
import { StateFile } from '../../src/store/state-file.ts';
import { SqliteKnownCatalogs } from '../../src/store/structured-records.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import type { LaunchSurroundings, UpstreamSetDeps, UpstreamTimes } from '../../src/upstream/server-context.ts';
import { UpstreamSet } from '../../src/upstream/upstream-set.ts';
import { FakeClock, settled } from './fake-clock.ts';
import type { ScriptedServer } from './scripted-server.ts';
import { stillRandom } from './still-random.ts';

/** A definition with everything at its default. */
export function serverOf(name: string, changes: Partial<Server> = {}): Server {
  return {
    name,
    transport: { type: 'stdio', command: name, args: [], env: {}, inheritEnv: false, cwd: '/' },
    description: null,
    isolation: null,
    isolationHeader: null,
    timeoutMs: 60_000,
    toolTimeoutMs: new Map(),
    retry: 'never',
    trusted: false,
    cache: true,
    probeMs: 30_000,
    start: 'lazy',
    enabled: true,
    tools: { include: null, exclude: new Set() },
    limits: { maxMessageBytes: 16 << 20, maxProcesses: 16 },
    origin: { file: 'test', line: 1, column: 1 },
    connectionDigest: `digest of ${name}`,
    ...changes,
  };
}

export function httpServerOf(name: string, changes: Partial<Server> = {}): Server {
  return serverOf(name, {
    transport: { type: 'http', url: `http://127.0.0.1/${name}`, headers: {}, tls: {} },
    ...changes,
  });
}

export function clientOf(
  sessionId: string | null,
  capabilities = '{}',
  changes: Partial<ClientProfile> = {},
): ClientProfile {
  return {
    principal: ANONYMOUS,
    sessionId,
    revision: sessionId === null ? '2026-07-28' : '2025-11-25',
    capabilities,
    fingerprint: fingerprint(capabilities),
    info: '{"name":"test client","version":"1"}',
    logLevel: null,
    handle: null,
    ...changes,
  };
}

/** An exchange that records. `answer` is how the client answers input requests. */
export class TestExchange implements Exchange {
  readonly id = 'x';
  readonly request: Message;
  readonly client: ClientProfile;
  trace: string | undefined = undefined;
  readonly takesInputRequired: boolean;
  cancelled: string | null = null;
  onCancel: ((reason: string) => void) | null = null;
  readonly emitted: Message[] = [];
  readonly asked: Message[] = [];
  /** For each input request, whether it is only likely to belong to this call. */
  readonly likely: boolean[] = [];
  answer: (request: Message) => Promise<Message> = () =>
    Promise.reject(new GatewayError('MISSING_CAPABILITY', 'nobody answers'));

  constructor(client: ClientProfile, message: Message) {
    this.client = client;
    this.request = message;
    this.takesInputRequired = client.sessionId === null;
  }

  emit(notification: Message): void {
    this.emitted.push(notification);
  }

  ask(message: Message, likely = false): Promise<Message> {
    this.asked.push(message);
    this.likely.push(likely);
    return this.answer(message);
  }

  cancel(reason: string): void {
    this.cancelled = reason;
    this.onCancel?.(reason);
  }
}

/** A tools/call of this client, in the era it speaks. */
export function toolCall(
  client: ClientProfile,
  params: string = '{"name":"echo","arguments":{}}',
  id = '"c1"',
): TestExchange {
  const era: Era = client.sessionId === null ? 'stateless' : 'stateful';
  return new TestExchange(client, request('tools/call', id, params, era));
}

class RecordedEvents implements UpstreamEvents {
  readonly notifications: { server: string; sessionId: string | null; method: string; bytes: string }[] = [];
  readonly requests: { server: string; sessionId: string | null; message: Message }[] = [];
  readonly changed: { server: string; fingerprint: string; lists: readonly ListKind[]; key: string | null }[] = [];
  readonly relistings: string[] = [];
  readonly lost: string[] = [];
  /** The cause of each loss in `lost`. */
  readonly causes: StateLoss[] = [];
  readonly connections: string[] = [];
  readonly outdatedBy: (string | null)[] = [];
  readonly states: ServerState[] = [];
  answer: (message: Message) => Promise<Message> = () =>
    Promise.reject(new GatewayError('MISSING_CAPABILITY', 'nobody answers'));

  notification(server: string, sessionId: string | null, message: Message): void {
    this.notifications.push({ server, sessionId, method: message.method, bytes: message.bytes.toString() });
  }

  request(server: string, sessionId: string | null, message: Message): Promise<Message> {
    this.requests.push({ server, sessionId, message });
    return this.answer(message);
  }

  contentChanged(_server: string, message: Message | null): void {
    this.outdatedBy.push(message?.method ?? null);
  }

  catalogChanged(server: string, print: string, lists: readonly ListKind[], key: string | null = null): void {
    this.changed.push({ server, fingerprint: print, lists, key });
  }

  relisted(server: string): void {
    this.relistings.push(server);
  }

  connectionChanged(_server: string, key: string, change: ConnectionChange): void {
    this.connections.push(`${change} ${key}`);
  }

  stateLost(_server: string, sessionId: string, cause: StateLoss): void {
    this.lost.push(sessionId);
    this.causes.push(cause);
  }

  statusChanged(_server: string, status: { readonly state: ServerState }): void {
    if (this.states.at(-1) !== status.state) this.states.push(status.state);
  }
}

const SEALING = sealingOf([Buffer.alloc(32, 7)], (key) => new Sealer(key));

/** The state file, which outlives a gateway's process; here in memory. */
export class Remembered {
  readonly file = new StateFile({ path: ':memory:', clock: new FakeClock(), logger: Logger.silent() });

  /** The stores of a process that starts now with this file. */
  opened() {
    this.file.flush();
    return {
      knownCatalogs: new SqliteKnownCatalogs(this.file),
      eraVerdicts: new SqliteEraVerdicts(this.file),
      upstreamSessions: new SqliteUpstreamSessions(this.file, SEALING),
    };
  }
}

export interface BenchOptions {
  readonly maxProcesses?: number;
  readonly times?: Partial<UpstreamTimes>;
  readonly remembered?: Remembered;
  readonly pool?: PoolSettings;
  readonly clientGone?: UpstreamSetDeps['clientGone'];
  readonly beforeAuthRequired?: UpstreamSetDeps['beforeAuthRequired'];
  readonly reachable?: LaunchSurroundings['reachable'];
  /** The sessions of a cluster; `clock` is then the clock of the cluster as well. */
  readonly sharedUpstreamSessions?: UpstreamSetDeps['sharedUpstreamSessions'];
  readonly clock?: FakeClock;
  readonly random?: UpstreamSetDeps['random'];
  readonly tracer?: UpstreamSetDeps['tracer'];
  readonly listener?: NonNullable<UpstreamSetDeps['listener']>;
}

/** An `UpstreamSet` over scripted servers, with a clock that the test advances and a record of all events. */
export class UpstreamBench {
  readonly clock: FakeClock;
  readonly events = new RecordedEvents();
  readonly metrics = new Metrics();
  readonly stores: ReturnType<Remembered['opened']>;
  readonly scripts = new Map<string, ScriptedServer>();
  readonly set: UpstreamSet;
  /** Warnings and errors, a line each. */
  readonly logged: string[] = [];

  constructor(options: BenchOptions = {}) {
    this.clock = options.clock ?? new FakeClock();
    this.stores = (options.remembered ?? new Remembered()).opened();
    this.set = new UpstreamSet({
      clock: this.clock,
      random: options.random ?? stillRandom(),
      logger: new Logger({ level: 'warn', write: (line) => void this.logged.push(line) }),
      metrics: this.metrics,
      events: this.events,
      tracer: options.tracer ?? null,
      ...this.stores,
      sharedUpstreamSessions: options.sharedUpstreamSessions,
      openTransport: (server, { kind, phases }) => this.#scriptOf(server).open(kind, phases ?? null),
      maxProcesses: options.maxProcesses ?? 128,
      startsAtOnce: 5,
      pool: options.pool ?? POOL_DEFAULTS,
      clientGone: options.clientGone ?? (() => false),
      ...(options.times === undefined ? {} : { times: options.times }),
      ...(options.listener === undefined ? {} : { listener: options.listener }),
      ...(options.reachable === undefined
        ? {}
        : { surroundings: { environment: {}, inContainer: false, reachable: options.reachable } }),
      ...(options.beforeAuthRequired === undefined ? {} : { beforeAuthRequired: options.beforeAuthRequired }),
    });
  }

  /** Adds scripted servers and starts the set. */
  async run(...servers: readonly (readonly [Server, ScriptedServer])[]): Promise<void> {
    for (const [server, script] of servers) {
      script.kind = server.transport.type;
      this.scripts.set(server.name, script);
    }
    void this.set.apply(new Map(servers.map(([server]) => [server.name, server])));
    this.set.start();
    await settled();
  }

  /** A partition of the principal `p` may have a script of its own, under `name of p`. */
  #scriptOf({ name, caller }: Server): ScriptedServer {
    return this.scripts.get(`${name} of ${caller?.owner}`) ?? this.scripts.get(name)!;
  }

  call(server: string, exchange: TestExchange): Promise<Outcome> {
    return this.set.call(server, exchange.request, exchange);
  }

  /** The outcome of a call that waits in vain for a free place. */
  async whenLate(outcome: Promise<Outcome>): Promise<Outcome> {
    await settled();
    await this.clock.advance(2_000);
    return outcome;
  }

  dropped(): number {
    const line = /^trunkline_upstream_dropped_total\{.*\} (\d+)$/gm;
    return [...this.metrics.exposition().matchAll(line)].reduce((sum, found) => sum + Number(found[1]), 0);
  }
}

/** The text of the answer's bytes; fails the test on a failure. */
export function answerText(outcome: Outcome): string {
  if (outcome.kind === 'failure') throw outcome.error;
  return outcome.message.bytes.toString();
}

export function failureOf(outcome: Outcome): GatewayError {
  if (outcome.kind === 'answer') throw new Error(`answered: ${outcome.message.bytes}`);
  return outcome.error;
}

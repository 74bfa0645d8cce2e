import type { Drift } from '../../src/gateway/drift/drift.ts';
import type { DriftPolicy, PinnedList, WaitingDefinition } from '../../src/model/drift.ts';
import { answer, type Outcome } from '../../src/model/outcome.ts';
import { systemRandom } from '../../src/model/random.ts';
import type { ListKind } from '../../src/model/server-catalog.ts';
import { result } from '../../src/protocol/compose.ts';
import { PinBook } from '../../src/registry/pin-book.ts';
import { SqliteRunTimeStore } from '../../src/store/run-time-store/sqlite-run-time-store.ts';
import { StoredPins } from '../../src/store/run-time-store/stored-pins.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { FakeClock } from './fake-clock.ts';
import { client, ended, endpointOf, GatewayBench, type RunOptions } from './gateway-bench.ts';
import { type Advertisement, serverCatalog } from './server-catalogs.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests read any member of the answers to clients
type Json = any;

/** A gateway with doubles of servers, `s` and others, whose lists are inspected like those of real servers. */
export class DriftBench {
  readonly bench: GatewayBench;
  readonly logged: Json[];
  /** Servers whose drift was reported to watchers, once for each report. */
  readonly driftChanges: string[];

  /** Starts another gateway on the files of this one. */
  readonly restarted: () => Promise<DriftBench>;

  private constructor(
    bench: GatewayBench,
    logged: Json[],
    driftChanges: string[],
    restarted: () => Promise<DriftBench>,
  ) {
    this.bench = bench;
    this.logged = logged;
    this.driftChanges = driftChanges;
    this.restarted = restarted;
  }

  static async of(
    policies: Readonly<Record<string, DriftPolicy>>,
    left?: {
      readonly runTimeStore: SqliteRunTimeStore;
      readonly marks: Set<string>;
      readonly listed: Map<string, readonly string[]>;
    },
  ): Promise<DriftBench> {
    const logged: Json[] = [];
    const logger = new Logger({ level: 'info', write: (line) => logged.push(JSON.parse(line)) });
    const clock = new FakeClock();
    const runTimeStore = left?.runTimeStore ?? new SqliteRunTimeStore({ path: ':memory:', clock, logger });
    const marks = left?.marks ?? new Set<string>();
    const listed = left?.listed ?? new Map<string, readonly string[]>();
    const pins = await PinBook.open({
      records: new StoredPins(runTimeStore, systemRandom),
      shared: false,
      marks: { has: (name) => marks.has(name), add: (name) => marks.add(name), delete: (name) => marks.delete(name) },
      kinds: {
        get: (name) => listed.get(name) ?? null,
        set: (name, kinds) => listed.set(name, kinds),
        forget: (name) => listed.delete(name),
      },
      clock,
      logger,
      desired: () => new Set(Object.keys(policies)),
    });
    const advertised = Object.fromEntries(Object.keys(policies).map((name) => [name, null]));
    const servers = Object.fromEntries(Object.entries(policies).map(([name, drift]) => [name, { drift }]));
    const driftChanges: string[] = [];
    const listChanged = (list: string, server: string) => void (list === 'drift' && driftChanges.push(server));
    const bench = new GatewayBench(advertised, servers, undefined, { pins, logger, listChanged });
    for (const name of Object.keys(policies)) bench.upstreams.states.set(name, 'running');
    bench.streams.sessions = [
      { sessionId: 'session-1', endpoint: 'aggregate', servers: Object.keys(policies) },
      { sessionId: 'own', endpoint: 'server', servers: Object.keys(policies) },
    ];
    return new DriftBench(bench, logged, driftChanges, () => DriftBench.of(policies, { runTimeStore, marks, listed }));
  }

  get drift(): Drift {
    return this.bench.gateway.drift!;
  }

  /** The server offers this from now on, and is listed. */
  async offer(server: string, offer: Advertisement): Promise<void> {
    const catalog = serverCatalog(server, offer);
    await this.bench.gateway.inspect(catalog);
    this.bench.upstreams.known.set(server, catalog);
    const kinds: readonly ListKind[] = ['tools', 'prompts', 'resources', 'resourceTemplates'];
    this.bench.gateway.catalogChanged(server, '{}', kinds);
  }

  /** The server answers lists itself, with this. */
  live(json: string): void {
    this.bench.upstreams.respond = ({ request }) => answer(result('9', json, request.era));
    this.bench.upstreams.owned.add('s');
  }

  /** The answer on the server's own endpoint, or on the aggregate. */
  async ask(
    method: string,
    params: object | null = null,
    where: 'own' | 'all' = 'own',
    more: RunOptions = {},
  ): Promise<Json> {
    return ended(await this.outcome(method, params, where, more));
  }

  outcome(
    method: string,
    params: object | null = null,
    where: 'own' | 'all' = 'own',
    more: RunOptions = {},
  ): Promise<Outcome> {
    const options: RunOptions =
      where === 'all' ? more : { client: client('stateful', { sessionId: 'own' }), endpoint: endpointOf('s'), ...more };
    return this.bench.run(method, params === null ? null : JSON.stringify(params), options);
  }

  async tools(where: 'own' | 'all' = 'own'): Promise<readonly string[]> {
    return (await this.ask('tools/list', null, where)).tools.map(({ name }: Json) => name);
  }

  async waiting(server = 's'): Promise<readonly WaitingDefinition[]> {
    return (await this.drift.report(server)).waiting;
  }

  /** Approves the waiting definitions with this name, as they are. */
  async approve(key: string, list: PinnedList = 'tools'): Promise<void> {
    const chosen = (await this.waiting()).filter((one) => one.key === key && one.list === list);
    await this.drift.approve('s', chosen, 'op');
  }

  /** The notifications to this session since the last call. */
  async reported(sessionId: string): Promise<readonly string[]> {
    await this.bench.clock.advance(100);
    const { delivered } = this.bench.streams;
    const own = delivered.splice(0).filter((one) => one.sessionId === sessionId);
    return own.map(({ message }) => message.method);
  }

  /** Lines of the log with this event. */
  lines(event: string): Json[] {
    return this.logged.filter((line) => line.event === event || line.msg === event || line.message === event);
  }
}

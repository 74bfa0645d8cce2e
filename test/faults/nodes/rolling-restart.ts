import type { ClusterNode } from '../../chaos/cluster-node.ts';
import { ClusterWorld, LEDGERS } from '../../chaos/cluster-world.ts';
import { until } from '../../support/cluster-processes.ts';
import type { Attempt } from '../ledger/history.ts';
import { LedgerClient, type Route } from '../ledger/ledger-client.ts';
import { type Backend, ReadyProxy } from './ready-proxy.ts';
import { StandingStreams } from './standing-streams.ts';
import { SteadyLoad } from './steady-load.ts';

export interface RollingOptions {
  readonly seed: number;
  /** How often every node is restarted, one after the other. */
  readonly rounds: number;
  readonly perSecond: number;
  /** Through a plain proxy that asks for readiness, or by clients that go to the next node when one refuses them. */
  readonly balancer: 'proxy' | 'failover';
  readonly say?: (text: string) => void;
}

export interface RollingResult {
  readonly calls: number;
  readonly perSecond: number;
  readonly restarts: number;
  /** Nodes that ended with anything but 0. */
  readonly exitCodes: readonly (number | null)[];
  /** Calls whose client did not get the result, in words. */
  readonly failed: readonly string[];
  /** The violations that the ledgers show. */
  readonly violations: readonly string[];
  /** From SIGTERM to the exit, in milliseconds. */
  readonly leftInMs: readonly number[];
  readonly streamsCompleted: number;
  readonly streamsCut: readonly string[];
}

const CLIENTS = 24;
/** The number of clients whose sessions have a process of their own. */
const OWN = 4;
/** Long enough for a loaded machine: a late call has not failed. */
const DEADLINE_MS = 30_000;

/** All nodes of a cluster are restarted one after the other, again and again, while clients call. */
export async function rollingRestart(options: RollingOptions): Promise<RollingResult> {
  const world = await ClusterWorld.start({ seed: options.seed, timeoutMs: DEADLINE_MS, store: false });
  const streams = new StandingStreams();
  let proxy: ReadyProxy | null = null;
  const clients: LedgerClient[] = [];
  try {
    const backends: Backend[] = world.nodes.map((node) => ({ origin: () => originOf(node) }));
    proxy = await ReadyProxy.start(backends);
    const { origin } = proxy;
    const through = (): Route => ({ node: 'proxy', url: `${origin}/mcp` });
    /** The index of the node that each client calls. */
    const places = new Map<LedgerClient, number>();
    for (let i = 0; i < CLIENTS; i++) {
      const client: LedgerClient = new LedgerClient({
        url: '',
        era: i % 4 === 3 ? 'stateless' : 'stateful',
        name: `r${i}`,
        history: world.history,
        patienceMs: DEADLINE_MS + 5_000,
        route: options.balancer === 'proxy' ? through : () => routeAt(world, places.get(client)!),
      });
      places.set(client, i % world.nodes.length);
      clients.push(client);
      await client.open();
    }
    streams.session(() => `${origin}/mcp`, clients[0]!.sessionId!);
    streams.session(() => `${origin}/mcp`, clients[1]!.sessionId!);
    streams.listen(() => `${origin}/mcp`);
    const load = new SteadyLoad({
      clients,
      perSecond: options.perSecond,
      next: (client, n) => kindOf(clients.indexOf(client), n),
      ended: (attempt, client) => {
        if (!refused(attempt)) return false;
        places.set(client, (places.get(client)! + 1) % world.nodes.length);
        return true;
      },
    });
    await until(() => streams.all, 'the streams to be open');
    load.start();
    const began = performance.now();
    const exitCodes: (number | null)[] = [];
    const leftInMs: number[] = [];
    for (let round = 1; round <= options.rounds; round++) {
      for (const node of world.nodes) {
        const enough = load.calls + options.perSecond / 2;
        await until(() => load.calls >= enough && streams.all, 'calls to go on');
        const reportedAt = performance.now();
        exitCodes.push(await node.leave());
        leftInMs.push(performance.now() - reportedAt);
        await node.start();
        await until(async () => proxy!.ready.every(Boolean) && (await known(world)), 'all nodes to know each other');
      }
      options.say?.(`round ${round} of ${options.rounds}: ${load.calls} calls, ${failures(world).length} failed`);
    }
    await load.stop();
    const seconds = (performance.now() - began) / 1000;
    return {
      calls: load.calls,
      perSecond: load.calls / seconds,
      restarts: exitCodes.length,
      exitCodes: exitCodes.filter((code) => code !== 0),
      failed: [...failures(world), ...(options.balancer === 'proxy' ? proxy.failures : [])],
      violations: world.violations().map(({ rule, call, text }) => `(${rule}) ${call}: ${text}`),
      leftInMs,
      streamsCompleted: streams.completed,
      streamsCut: [...streams.cut],
    };
  } finally {
    streams.close();
    for (const client of clients) client.close();
    await proxy?.[Symbol.asyncDispose]();
    await world.dispose();
  }
}

/** One in ten takes longer, so that a call is in flight whenever a node is asked to leave. */
function kindOf(client: number, n: number): { tool: string; args?: Record<string, unknown> } {
  const server = client < OWN ? 'own' : LEDGERS.filter((name) => name !== 'own')[n % (LEDGERS.length - 1)]!;
  return n % 10 === 0 ? { tool: `${server}__slow`, args: { ms: 700 } } : { tool: `${server}__unsafe` };
}

function originOf({ process }: ClusterNode): string {
  return new URL(process?.mcpUrl ?? 'http://127.0.0.1:9').origin;
}

function routeAt({ nodes }: ClusterWorld, place: number): Route {
  const node = nodes[place]!;
  return { node: node.name, url: `${originOf(node)}/mcp` };
}

/** The node does not listen: nothing was sent. */
function refused({ ending, reason }: Attempt): boolean {
  return ending === 'NOT_SENT' && reason.includes('ECONNREFUSED');
}

function failures({ history }: ClusterWorld): string[] {
  return history.attempts
    .filter((attempt) => attempt.ending !== null && attempt.ending !== 'RESULT' && !refused(attempt))
    .map(
      ({ call, tool, server, via, ending, reason, startedAt, endedAt }) =>
        `${call} (${server} ${tool}) at ${via}: ${ending} after ${Math.round(endedAt! - startedAt)} ms: ${reason}`,
    );
}

/** Whether every node knows that all are there. */
async function known(world: ClusterWorld): Promise<boolean> {
  const views = await Promise.all(
    world.running.map((node) => node.control<{ nodes: { state: string }[] }>('/api/v1/nodes')),
  );
  return views.every(({ nodes }) => nodes.filter(({ state }) => state === 'ready').length === world.nodes.length);
}

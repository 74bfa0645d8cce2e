import { setTimeout as sleep } from 'node:timers/promises';
import type { Violation } from '../faults/ledger/check-ledger.ts';
import type { Ending } from '../faults/ledger/history.ts';
import { type ClusterFigures, clusterFigures } from './cluster-figures.ts';
import { ClusterWorld, LEDGERS } from './cluster-world.ts';
import { ConfigWriter } from './config-writer.ts';
import { Crowd } from './crowd.ts';
import { forgottenSessions } from './forgotten-sessions.ts';
import { Nemesis } from './nemesis.ts';
import { planNemesis } from './nemesis-plan.ts';
import { PublicCallers } from './public-callers.ts';
import { Seeded } from './seeded.ts';

export interface ClusterChaosOptions {
  readonly seed: number;
  readonly durationMs: number;
  readonly clients: number;
  /** Mean time a client takes between two calls. */
  readonly pauseMs: number;
  /** Mean time between two misfortunes. */
  readonly everyMs: number;
  /** Longest that a node is stopped. */
  readonly stopMs: number;
  /** How much later than its deadline a call may end. */
  readonly lateMs: number;
  /** How long a dead node's processes may outlive it. */
  readonly reapedMs: number;
  readonly say?: (text: string) => void;
  /** Receives the history when the run cannot go on, for replay. */
  readonly keep?: (history: object) => void;
}

export interface ClusterChaosResult {
  readonly violations: readonly Violation[];
  readonly endings: Record<Ending, number>;
  /** Calls without any answer although their node was up all the time. */
  readonly lost: readonly string[];
  /** Calls of programs by the public subjects, and the replies that came after a first one. */
  readonly publicEndings: Record<string, number>;
  /** Calls that failed although they needed nothing but their node. */
  readonly needless: readonly string[];
  /** Sessions that some node did not know, though the node that opened them could answer for them. */
  readonly forgotten: readonly string[];
  readonly misfortunes: Record<string, number>;
  /** Servers that some node could not call after the misfortunes had ended. */
  readonly dead: readonly string[];
  readonly badExits: readonly string[];
  /** Processes that outlived a dead node for longer than `reapedMs`, or the end of all nodes. */
  readonly leaked: readonly string[];
  readonly writes: Record<string, number>;
  readonly convergedMs: number;
  readonly figures: ClusterFigures;
  readonly history: object;
}

const TIMEOUT_MS = 6_000;
const PROGRAMS = 8;
const PUBLIC_SETTINGS = {
  agents: { programs: { key: 'the-key-of-all-programs-0123' } },
  unknownCallers: 'allow',
  cluster: { publicSubjects: true, publicPrincipal: 'programs' },
};
const TOOLS = ['safe', 'safe_slow', 'unsafe', 'unsafe', 'unsafe', 'slow', 'slow', 'big'];
/** All nodes have to show the writes within 3 s; a loaded machine takes longer, and the figure says how long. */
const CONVERGES_MS = 30_000;

/**
 * Three nodes on a real nats-server with a real PostgreSQL, and a crowd whose every request goes to any of them, while
 * nodes are killed, stopped, cut off, slowed and restarted one after the other, NATS and the database are killed, and
 * servers are added, changed and removed. At the end the ledgers are checked.
 */
export async function clusterChaos(options: ClusterChaosOptions): Promise<ClusterChaosResult> {
  const { seed, durationMs, clients, pauseMs, everyMs, stopMs, lateMs, reapedMs, say = () => {}, keep } = options;
  const settings = PUBLIC_SETTINGS;
  const world = await ClusterWorld.start({ seed, timeoutMs: TIMEOUT_MS, lateMs, blind: 0.1, settings });
  const { nodes, history } = world;
  const plan = planNemesis({ seed, durationMs, nodes: nodes.length, everyMs, stopMs });
  const nemesis = new Nemesis(world, reapedMs);
  const crowd = new Crowd(world, new Seeded(seed + 1), LEDGERS, [], {
    tools: TOOLS,
    slowMs: 600,
    pauseMs,
    roams: true,
  });
  const programs = new PublicCallers(new Seeded(seed + 3), {
    nats: world.nats.url,
    history,
    servers: LEDGERS,
    tools: TOOLS,
    slowMs: 600,
    pauseMs: pauseMs / 4,
    timeoutMs: TIMEOUT_MS,
    lateMs,
  });
  const writer = new ConfigWriter(world, new Seeded(seed + 2), {
    type: 'http',
    url: world.url('modern'),
    start: 'lazy',
  });
  const everything = (): object => ({
    seed,
    plan,
    struck: nemesis.struck,
    absences: nodes.flatMap(({ absences }) => absences),
    standstills: Object.fromEntries(nodes.map((node) => [node.name, node.standstills(performance.timeOrigin)])),
    attempts: history.attempts,
    writes: writer.writes,
    ledgers: world.ledgers(),
    logs: Object.fromEntries(nodes.map(({ name, log }) => [name, log])),
  });
  const telling = setInterval(() => say(JSON.stringify([history.endings(), nemesis.counts()])), 30_000);
  try {
    // Starts every server once before that: a start is no misfortune.
    await probe(world, 'first');
    crowd.begin(clients);
    await programs.begin(PROGRAMS);
    writer.begin();
    await nemesis.run(plan, durationMs);
    await writer.stop();
    await Promise.all([crowd.stop(), programs.stop()]);
    const natsAway = nemesis.struck.filter(({ kind }) => kind.startsWith('nats'));
    programs.allowFor(natsAway);
    const { convergedMs, acknowledged, present } = await converge(world, writer);
    const dead = await probe(world, 'last');
    const codes = await Promise.all(nodes.map((node) => node.leave()));
    const left = await world.left();
    return {
      violations: world.violations({ acknowledged, present }),
      endings: history.endings(),
      lost: [...world.lost(), ...programs.unanswered(natsAway)],
      publicEndings: programs.endings(),
      needless: world.needless(),
      forgotten: forgottenSessions(history.attempts, nemesis.struck),
      misfortunes: nemesis.counts(),
      dead,
      badExits: [
        ...nemesis.badExits,
        ...codes.flatMap((code, i) => (code === 0 ? [] : [`${nodes[i]!.name} ended with ${code} at last`])),
      ],
      leaked: [...nemesis.leaked, ...left.map((pid) => `process ${pid} after the end of all nodes`)],
      writes: countBy(writer.writes.map(({ end }) => end)),
      convergedMs,
      figures: clusterFigures(
        history.attempts,
        nemesis.struck,
        Object.values(world.ledgers()).flat(),
        performance.timeOrigin,
        new Map(nodes.map((node) => [node.name, node.standstills(performance.timeOrigin)])),
      ),
      history: everything(),
    };
  } catch (error) {
    keep?.(everything());
    throw error;
  } finally {
    clearInterval(telling);
    await world.dispose();
  }
}

/** Waits until every node shows what was acknowledged; each text is of one name at one node. */
async function converge(
  world: ClusterWorld,
  writer: ConfigWriter,
): Promise<{ readonly convergedMs: number; readonly acknowledged: string[]; readonly present: string[] }> {
  const from = performance.now();
  const acknowledged = world.nodes.flatMap(({ name }) => writer.acknowledged.map((text) => `${name}: ${text}`));
  for (;;) {
    const present: string[] = [];
    for (const node of world.running) {
      present.push(...(await writer.present(node)).map((text) => `${node.name}: ${text}`));
    }
    const convergedMs = performance.now() - from;
    if (acknowledged.every((text) => present.includes(text)) || convergedMs > CONVERGES_MS) {
      return { convergedMs, acknowledged, present };
    }
    await sleep(100);
  }
}

/** Every server is called at every node. */
async function probe(world: ClusterWorld, time: string): Promise<string[]> {
  const dead: string[] = [];
  const clients = world.nodes.map(({ name, process }) => world.clientOf(`${time}-${name}`, process!));
  for (const client of clients) {
    await client.open();
    for (const server of LEDGERS) {
      const { ending, reason } = await client.call(`${server}__unsafe`);
      if (ending !== 'RESULT') dead.push(`${server} by ${client.name}: ${reason}`);
    }
    await client.end();
  }
  return dead;
}

export function countBy(values: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

/** All violations of the run, as texts. */
export function wrongs(result: ClusterChaosResult): string[] {
  return [
    ...result.violations.map(({ rule, call, text }) => `(${rule}) ${call}: ${text}`),
    ...result.lost.map((text) => `no answer: ${text}`),
    ...result.needless.map((text) => `failed without need: ${text}`),
    ...result.forgotten.map((text) => `session forgotten: ${text}`),
    ...result.dead.map((text) => `dead: ${text}`),
    ...result.badExits,
    ...result.leaked,
  ];
}

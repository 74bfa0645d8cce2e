import { setTimeout as sleep } from 'node:timers/promises';
import type { ClusterNode } from '../../chaos/cluster-node.ts';
import { ClusterWorld } from '../../chaos/cluster-world.ts';
import { until } from '../../support/cluster-processes.ts';
import { livingAmong, type ProcessId, childrenOf as processesOf } from '../../support/processes.ts';
import { readLedger } from '../ledger/ledger-entry.ts';
import { type Caller, openCallers } from './callers.ts';
import { served } from './node-losses.ts';
import { allKnown, type Child, childrenOf, inWords } from './world-facts.ts';

export interface PauseOptions {
  readonly seed: number;
  readonly pauses: number;
  /** How long a node is paused. */
  readonly pauseMs: number;
  readonly clients: number;
  /** Two nodes of three are paused at once, for half of the time. */
  readonly overlapping?: boolean;
  readonly say?: (text: string) => void;
  readonly lateMs?: number;
}

export interface PauseResult {
  readonly calls: number;
  readonly pauses: number;
  /** From SIGCONT until the last process that the node had owned is gone, and until the node is ready again. */
  readonly endedMs: readonly number[];
  readonly readyMs: readonly number[];
  /** Executions after the pause by processes that the node had owned before it. */
  readonly executedLate: number;
  /** Messages about nodes that came back without logging that they had been paused and fenced. */
  readonly wrong: readonly string[];
  readonly endings: Readonly<Record<string, number>>;
  readonly violations: readonly string[];
  readonly lost: readonly string[];
}

/** SIGSTOP of nodes, for longer than their lease lasts, while clients call through all of them (F31). */
export async function pauseNodes(options: PauseOptions): Promise<PauseResult> {
  const { seed, pauses, pauseMs, clients, overlapping = false, say, lateMs = 1_000 } = options;
  const world = await ClusterWorld.start({ seed, store: false, lateMs });
  let callers: Caller[] = [];
  try {
    callers = await openCallers(world, clients);
    for (const caller of callers) caller.begin();
    const results: Paused[] = [];
    const running: Promise<unknown>[] = [];
    for (let i = 0; i < pauses; i++) {
      const node = world.nodes[i % world.nodes.length]!;
      if (!overlapping) await until(() => allKnown(world), 'all nodes to know each other');
      if (running.length === 0) await served(callers, performance.now());
      const paused = pause(world, node, pauseMs).then((result) => {
        results.push(result);
        if (results.length % 5 === 0)
          say?.(`${results.length} of ${pauses} pauses, ${world.history.attempts.length} calls`);
      });
      running.push(paused);
      // The third pause may begin when the first node is back.
      await (overlapping ? Promise.race([paused, sleep(pauseMs / 2)]) : paused);
      if (overlapping && running.length > 1) await running.at(-2);
    }
    await Promise.all(running);
    await until(() => allKnown(world), 'all nodes to know each other');
    await served(callers, performance.now());
    await Promise.all(callers.map((caller) => caller.end()));
    return {
      calls: world.history.attempts.length,
      pauses: results.length,
      endedMs: results.map(({ endedMs }) => endedMs),
      readyMs: results.map(({ readyMs }) => readyMs),
      executedLate: results.reduce((sum, { executedLate }) => sum + executedLate, 0),
      wrong: results.flatMap(({ wrong }) => wrong),
      endings: world.history.endings(),
      violations: inWords(world.violations()),
      lost: world.lost(),
    };
  } finally {
    await Promise.all(callers.map((caller) => caller.end()));
    await world.dispose();
  }
}

interface Paused {
  readonly endedMs: number;
  readonly readyMs: number;
  readonly executedLate: number;
  readonly wrong: readonly string[];
}

/** Servers of which one process at most may serve a session, or the cluster. */
const OWNED = ['own', 'single'];

async function pause(world: ClusterWorld, node: ClusterNode, pauseMs: number): Promise<Paused> {
  const process = node.process!;
  const before = (await childrenOf(process)).filter(({ server }) => OWNED.includes(server));
  const owned = identified(process.gateway.process.pid!, before);
  node.stop();
  await sleep(pauseMs);
  const pids = new Set(before.map(({ pid }) => pid));
  const executed = executions(world, pids);
  const since = Date.now();
  const wokenAt = performance.now();
  const back = node.goOn().then(() => performance.now() - wokenAt);
  await until(() => livingAmong(owned).length === 0, 'what the paused node had owned to end').catch((error: Error) => {
    const lines = node.log.split('\n').filter((line) => /fenced|stood_still|lease|claim/.test(line));
    throw new Error(`${error.message}; ${node.name}: ${lines.slice(-8).join('\n')}`);
  });
  const endedMs = performance.now() - wokenAt;
  const readyMs = await back;
  const reported = await until(() => saysSoSince(node, since), '').then(
    () => true,
    () => false,
  );
  const wrong = reported ? [] : [`${node.name} does not say that it was paused and fenced`];
  return { endedMs, readyMs, executedLate: executions(world, pids) - executed, wrong };
}

/** Whether the node has logged that it was paused and fenced. */
function saysSoSince({ log }: ClusterNode, since: number): boolean {
  const line = log.split('\n').findLast((one) => one.includes('"event":"node_fenced","paused":true'));
  return line !== undefined && Date.parse((JSON.parse(line) as { time: string }).time) >= since;
}

/** With their start times, so that other processes that reuse their pids are not mistaken for them. */
function identified(gateway: number, children: readonly Child[]): ProcessId[] {
  const pids = new Set(children.map(({ pid }) => pid));
  return processesOf(gateway).filter(([pid]) => pids.has(pid));
}

function executions(world: ClusterWorld, pids: ReadonlySet<number>): number {
  return OWNED.flatMap((server) => readLedger(world.ledger(server))).filter(
    ({ event, pid }) => event === 'executed' && pids.has(pid),
  ).length;
}

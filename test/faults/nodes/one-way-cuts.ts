import { setTimeout as sleep } from 'node:timers/promises';
import { ClusterWorld } from '../../chaos/cluster-world.ts';
import { until } from '../../support/cluster-processes.ts';
import type { Direction } from '../../support/tcp-gate.ts';
import { type Caller, openCallers } from './callers.ts';
import { served } from './node-losses.ts';
import { allKnown, inWords } from './world-facts.ts';

export interface CutOptions {
  readonly seed: number;
  /** The directions blocked between a node and NATS, one cut after the other, each at another node. */
  readonly cuts: readonly (readonly Direction[])[];
  readonly cutMs: number;
  readonly clients: number;
  readonly lateMs?: number;
}

export interface CutResult {
  readonly calls: number;
  /** From the cut until the node reports that it is not ready. */
  readonly fencedMs: readonly number[];
  /** From the end of the cut until all nodes are ready and know each other. */
  readonly backMs: readonly number[];
  readonly violations: readonly string[];
  readonly lost: readonly string[];
}

/** One node at a time is cut off from NATS, in one direction or both, for longer than its lease lasts (F29). */
export async function cutNodes({ seed, cuts, cutMs, clients, lateMs = 1_000 }: CutOptions): Promise<CutResult> {
  const world = await ClusterWorld.start({ seed, store: false, lateMs, blind: 0.3 });
  let callers: Caller[] = [];
  try {
    callers = await openCallers(world, clients);
    for (const caller of callers) caller.begin();
    const fencedMs: number[] = [];
    const backMs: number[] = [];
    for (const [i, directions] of cuts.entries()) {
      await until(() => allKnown(world), 'all nodes to know each other');
      const node = world.nodes[i % world.nodes.length]!;
      const cutAt = performance.now();
      node.gate.hold(...directions);
      await until(async () => !(await node.process!.ready()), `${node.name} to be fenced`);
      fencedMs.push(performance.now() - cutAt);
      await sleep(Math.max(0, cutAt + cutMs - performance.now()));
      const openedAt = performance.now();
      node.gate.open();
      await until(() => allKnown(world), 'all nodes to know each other again');
      backMs.push(performance.now() - openedAt);
      await served(callers, performance.now());
    }
    await Promise.all(callers.map((caller) => caller.end()));
    const calls = world.history.attempts.length;
    return { calls, fencedMs, backMs, violations: inWords(world.violations()), lost: world.lost() };
  } finally {
    await Promise.all(callers.map((caller) => caller.end()));
    await world.dispose();
  }
}

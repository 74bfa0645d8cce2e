import { setTimeout as sleep } from 'node:timers/promises';
import { ClusterWorld, LEDGERS } from '../../chaos/cluster-world.ts';
import { until } from '../../support/cluster-processes.ts';
import { KubernetesService } from '../../support/kubernetes-service.ts';
import { LoadBalancer } from '../../support/load-balancers.ts';
import type { Attempt } from '../ledger/history.ts';
import { Caller } from './callers.ts';
import { served } from './node-losses.ts';
import { allKnown, inWords } from './world-facts.ts';

export const BALANCERS = ['nginx', 'haproxy', 'kubernetes'] as const;

export interface BehindOptions {
  readonly seed: number;
  readonly balancer: (typeof BALANCERS)[number];
  /** How long NATS is away, each time, in milliseconds. */
  readonly natsMs: readonly number[];
  /** How long PostgreSQL is away, in milliseconds. */
  readonly databaseMs: number;
  /** Whether all nodes are restarted at the end, one after the other. */
  readonly restarts: boolean;
  readonly lateMs?: number;
  readonly say?: (text: string) => void;
}

export interface BehindResult {
  readonly balancer: string;
  readonly calls: number;
  /** Calls begun or ended while NATS was away that need no lease; those that did not end with RESULT, in words. */
  readonly withoutNats: number;
  readonly failedWithoutNats: readonly string[];
  /** All calls begun or ended while PostgreSQL was away. */
  readonly withoutDatabase: number;
  readonly failedWithoutDatabase: readonly string[];
  /** All calls during the restarts. */
  readonly duringRestarts: number;
  readonly failedDuringRestarts: readonly string[];
  /** Calls that need no lease, over the whole run. */
  readonly leaselessFailed: readonly string[];
  readonly exitCodes: readonly (number | null)[];
  readonly violations: readonly string[];
  /** Containers that the kubelet would have restarted. */
  readonly killed: readonly string[];
}

const NEED_LEASE = ['own', 'single'];
const CALLERS_EACH = 2;

/** Three nodes behind a real load balancer, while clients call through it and NATS, PostgreSQL and nodes go and come back. */
export async function behindBalancer(options: BehindOptions): Promise<BehindResult> {
  const { seed, balancer, natsMs, databaseMs, restarts, say, lateMs = 1_000 } = options;
  const world = await ClusterWorld.start({ seed, lateMs, fixedPorts: true });
  const callers: Caller[] = [];
  let front: LoadBalancer | KubernetesService | null = null;
  try {
    await until(() => allKnown(world), 'all nodes to know each other');
    const service = balancer === 'kubernetes' ? await KubernetesService.start(world.nodes) : null;
    front =
      service ??
      (await LoadBalancer.start(balancer as 'nginx' | 'haproxy', {
        nodes: world.running.map(({ mcpUrl }) => Number(new URL(mcpUrl).port)),
      }));
    const url = `http://127.0.0.1:${front.port}/mcp`;
    for (const server of Array.from({ length: CALLERS_EACH }, () => LEDGERS).flat()) {
      const era = server === 'modern' ? 'stateless' : 'stateful';
      const client = world.clientAt(`b${callers.length}`, { node: balancer, url }, era);
      await client.open();
      callers.push(new Caller(client, server));
    }
    for (const caller of callers) caller.begin();
    const calm = async (): Promise<void> => {
      await until(() => allKnown(world), 'all nodes to be ready');
      await served(callers, performance.now());
    };
    await calm();
    const { attempts } = world.history;
    /** The calls that some of `work` saw. */
    const during = async (work: () => Promise<unknown>): Promise<readonly Attempt[]> => {
      const from = performance.now();
      await work();
      const to = performance.now();
      await calm();
      return attempts.filter(({ startedAt, endedAt }) => startedAt <= to && (endedAt ?? to) >= from);
    };
    const noNats: Attempt[] = [];
    for (const [i, awayMs] of natsMs.entries()) {
      const seen = await during(async () => {
        await world.nats.kill();
        await sleep(awayMs);
        await world.nats.run();
      });
      noNats.push(...seen.filter(({ server }) => !NEED_LEASE.includes(server ?? '')));
      if ((i + 1) % 10 === 0) say?.(`${balancer}: ${i + 1} of ${natsMs.length} outages, ${attempts.length} calls`);
    }
    const noDatabase = await during(async () => {
      await world.database!.kill();
      await sleep(databaseMs);
      await world.database!.run();
    });
    const exitCodes: (number | null)[] = [];
    const restarted = restarts
      ? await during(async () => {
          for (const node of world.nodes) {
            if (service === null) {
              exitCodes.push(await node.leave());
              await node.start();
            } else exitCodes.push((await service.replace(node)).code);
            await calm();
            await until(() => service?.allListed !== false, 'all pods to be listed');
          }
        })
      : [];
    await Promise.all(callers.map((caller) => caller.end()));
    return {
      balancer,
      calls: attempts.length,
      withoutNats: noNats.length,
      failedWithoutNats: failed(noNats),
      withoutDatabase: noDatabase.length,
      failedWithoutDatabase: failed(noDatabase),
      duringRestarts: restarted.length,
      failedDuringRestarts: failed(restarted),
      leaselessFailed: failed(attempts.filter(({ server }) => !NEED_LEASE.includes(server ?? ''))),
      exitCodes,
      violations: inWords(world.violations()),
      killed: service?.restarts ?? [],
    };
  } finally {
    await Promise.all(callers.map((caller) => caller.end()));
    await front?.[Symbol.asyncDispose]();
    await world.dispose();
  }
}

function failed(attempts: readonly Attempt[]): string[] {
  return attempts
    .filter(({ ending }) => ending !== 'RESULT')
    .map(
      ({ call, tool, server, via, ending, startedAt, endedAt, reason }) =>
        `${call} (${server} ${tool}) behind ${via}: ${ending} after ${Math.round((endedAt ?? startedAt) - startedAt)} ms: ${reason}`,
    );
}

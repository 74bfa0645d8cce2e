import { setTimeout as sleep } from 'node:timers/promises';
import { ClusterWorld } from '../../chaos/cluster-world.ts';
import { Seeded } from '../../chaos/seeded.ts';
import { until } from '../../support/cluster-processes.ts';
import { RunTimeClient } from '../../support/run-time-client.ts';
import type { Attempt } from '../ledger/history.ts';
import { Caller } from './callers.ts';
import { served } from './node-losses.ts';
import { allKnown, childrenOf, inWords, registryOf } from './world-facts.ts';

export interface OutageOptions {
  readonly seed: number;
  /** How long each is, in milliseconds: from kill -9 of the nats-server to its start. */
  readonly outagesMs: readonly number[];
  readonly say?: (text: string) => void;
  readonly lateMs?: number;
}

export interface OutageResult {
  readonly calls: number;
  readonly leaselessCalls: number;
  /** Calls that need no lease and did not end with RESULT, in words. */
  readonly leaselessFailed: readonly string[];
  /** From the end of the lease (or the call, where that was later) to NOT_SENT. */
  readonly refusedMs: readonly number[];
  /** In words: calls that ran without a needed lease or were refused without `retryable`, and failed writes. */
  readonly wrong: readonly string[];
  readonly writes: number;
  /** Looks during an outage that found no node ready: a balancer would refuse every call. */
  readonly noneReady: number;
  /** From the server's start until all nodes show the same servers and nodes, and are ready. */
  readonly equalMs: readonly number[];
  /** Processes of sessions and singletons that were there before, and how many of them are not there after. */
  readonly owned: number;
  readonly ownedEnded: number;
  readonly violations: readonly string[];
  readonly lost: readonly string[];
}

interface Outage {
  readonly downAt: number;
  readonly returnAt: number;
}

/** How long a node may go on serving after its last renewal that can have been acknowledged. */
const LEASE_MS = 2_000;
const OWNED = ['own', 'single'];
const SERVERS = ['shared', 'old', 'modern', 'own', 'single'] as const;

/** NATS is killed and comes back, again and again, while clients call at each node and an operator adds servers (F28). */
export async function outages({ seed, outagesMs, say, lateMs = 1_000 }: OutageOptions): Promise<OutageResult> {
  const world = await ClusterWorld.start({ seed, lateMs });
  const random = new Seeded(seed);
  const callers: Caller[] = [];
  try {
    await until(() => allKnown(world), 'all nodes to know each other');
    for (const node of world.running) {
      for (const server of SERVERS) {
        const era = server === 'modern' ? 'stateless' : 'stateful';
        const client = world.clientOf(`${node.name}.${server}`, node, era);
        await client.open();
        const caller = new Caller(client, server);
        const { ending, reason } = await caller.call('unsafe');
        if (ending !== 'RESULT') throw new Error(`${server} does not answer: ${ending} ${reason}`);
        callers.push(caller);
      }
    }
    for (const caller of callers) caller.begin();
    const refusedMs: number[] = [];
    const equalMs: number[] = [];
    const wrong: string[] = [];
    const acknowledged: string[] = [];
    const struck: Outage[] = [];
    let owned = 0;
    let ownedEnded = 0;
    let noneReady = 0;
    for (const [i, outageMs] of outagesMs.entries()) {
      await until(() => allKnown(world), 'all nodes to be ready');
      await served(callers, performance.now());
      const before = await ownedPids(world);
      const from = world.history.attempts.length;
      const downAt = performance.now();
      await world.nats.kill();
      const name = `added${i}`;
      const { status, text } = await new RunTimeClient(random.pick(world.running).gateway).add(
        name,
        world.pipe('added', { start: 'lazy' }),
      );
      if (status === 201) acknowledged.push(name);
      else wrong.push(`a write during the outage: ${status} ${text}`);
      while (performance.now() < downAt + outageMs) {
        const ready = await Promise.all(world.running.map((node) => node.ready()));
        if (!ready.includes(true)) noneReady++;
        await sleep(50);
      }
      const returnAt = performance.now();
      await world.nats.run();
      struck.push({ downAt, returnAt });
      await until(() => allEqual(world, acknowledged), 'all nodes to show the same').catch(async (error: Error) => {
        throw new Error(`${error.message}: ${(await registries(world)).join('\n')}`);
      });
      equalMs.push(performance.now() - returnAt);
      await served(callers, performance.now());
      const after = await ownedPids(world);
      owned += before.length;
      ownedEnded += before.filter((pid) => !after.includes(pid)).length;
      judge(world.history.attempts.slice(from), downAt + LEASE_MS, returnAt, refusedMs, wrong);
      if ((i + 1) % 10 === 0) say?.(`${i + 1} of ${outagesMs.length} outages, ${world.history.attempts.length} calls`);
    }
    await Promise.all(callers.map((caller) => caller.end()));
    const { attempts } = world.history;
    const leaseless = attempts.filter(({ server }) => !OWNED.includes(server ?? ''));
    return {
      calls: attempts.length,
      leaselessCalls: leaseless.length,
      leaselessFailed: leaseless.filter(({ ending }) => ending !== 'RESULT').map(reported),
      refusedMs,
      wrong,
      writes: acknowledged.length,
      equalMs,
      owned,
      ownedEnded,
      noneReady,
      violations: inWords(world.violations()),
      lost: attempts
        .filter(({ ending }) => ending === 'LOST')
        .map((attempt) => `${reported(attempt)}${during(attempt, struck)}`),
    };
  } finally {
    await Promise.all(callers.map((caller) => caller.end()));
    await world.dispose();
  }
}

/** Judges calls that need a lease and ended after every lease had expired, but before the nats-server started again. */
function judge(
  attempts: readonly Attempt[],
  leaseEndedAt: number,
  returnAt: number,
  refusedMs: number[],
  wrong: string[],
): void {
  for (const attempt of attempts) {
    const { server, ending, startedAt, endedAt, reason } = attempt;
    if (!OWNED.includes(server ?? '') || endedAt! < leaseEndedAt || endedAt! > returnAt) continue;
    if (ending === 'RESULT' && startedAt >= leaseEndedAt) wrong.push(`without a lease: ${reported(attempt)}`);
    if (ending !== 'NOT_SENT') continue;
    refusedMs.push(endedAt! - Math.max(startedAt, leaseEndedAt));
    if (!reason.includes('"retryable":true')) wrong.push(`not said to be retryable: ${reported(attempt)}`);
  }
}

async function ownedPids(world: ClusterWorld): Promise<number[]> {
  const children = await Promise.all(world.running.map((node) => childrenOf(node)));
  return children.flat().flatMap(({ server, pid }) => (OWNED.includes(server) ? [pid] : []));
}

async function allEqual(world: ClusterWorld, servers: readonly string[]): Promise<boolean> {
  const [one, ...others] = await registries(world);
  const everybody = others.every((other) => other === one);
  return everybody && servers.every((name) => one!.includes(`"${name}"`)) && (await allKnown(world));
}

function registries({ running }: ClusterWorld): Promise<string[]> {
  return Promise.all(running.map((node) => registryOf(node)));
}

/** When the call began, relative to each outage during it. */
function during({ startedAt, endedAt }: Attempt, struck: readonly Outage[]): string {
  return struck
    .filter(({ downAt, returnAt }) => startedAt < returnAt + 5_000 && endedAt! > downAt)
    .map(
      ({ downAt, returnAt }) =>
        `, begun ${Math.round(startedAt - downAt)} ms after the begin of an outage of ${Math.round(returnAt - downAt)} ms`,
    )
    .join('');
}

function reported({ call, tool, server, via, ending, startedAt, endedAt, reason }: Attempt): string {
  return `${call} (${server} ${tool}) at ${via}: ${ending} after ${Math.round(endedAt! - startedAt)} ms: ${reason}`;
}

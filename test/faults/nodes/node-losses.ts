import { ClusterWorld } from '../../chaos/cluster-world.ts';
import { Seeded } from '../../chaos/seeded.ts';
import { until } from '../../support/cluster-processes.ts';
import { childrenOf, livingAmong } from '../../support/processes.ts';
import { type Caller, openCallers } from './callers.ts';
import { spawnTime } from './spawn-time.ts';
import { allKnown, inWords } from './world-facts.ts';

export interface LossOptions {
  readonly seed: number;
  /** Nodes that are killed, one after the other; each is started again. */
  readonly losses: number;
  readonly clients: number;
  readonly say?: (text: string) => void;
  /** So much later than its deadline a call may end. */
  readonly lateMs?: number;
}

/** Times in milliseconds. */
export interface LossResult {
  readonly calls: number;
  /** A fresh process, by itself, on the machine as it is. */
  readonly spawnMs: readonly number[];
  /** From the kill (or the call, where that was later) to UNKNOWN, of calls through other nodes. */
  readonly unknownMs: readonly number[];
  /** From the kill to the next result, of clients whom it troubled: of servers that need no lease, and of those that do. */
  readonly leaselessMs: readonly number[];
  readonly ownedMs: readonly number[];
  /** From the kill to the end of the last child of the dead node. */
  readonly childrenMs: readonly number[];
  /** In words: those who were not served for more than three seconds. */
  readonly stories: readonly string[];
  readonly endings: Readonly<Record<string, number>>;
  readonly violations: readonly string[];
  /** Calls whose node was there all the time and never answered. */
  readonly lost: readonly string[];
  readonly left: number;
}

/** Who waits longer than this for a result, without anything going wrong, was affected too. */
const AFFECTED_MS = 500;
/** Of those who wait longer, the whole story is told. */
const LONG_MS = 3_000;
const TOLD_WITHIN_MS = 2_000;

/** kill -9 of nodes while clients call through all of them (F30). */
export async function loseNodes({ seed, losses, clients, say, lateMs = 1_000 }: LossOptions): Promise<LossResult> {
  const world = await ClusterWorld.start({ seed, store: false, lateMs });
  const random = new Seeded(seed);
  let callers: Caller[] = [];
  let left = 0;
  try {
    callers = await openCallers(world, clients);
    for (const caller of callers) caller.begin();
    const stories: string[] = [];
    const spawnMs: number[] = [];
    const result = { unknownMs: [], leaselessMs: [], ownedMs: [], childrenMs: [] } as Record<string, number[]>;
    for (let i = 1; i <= losses; i++) {
      await until(() => allKnown(world), 'all nodes to know each other');
      // Everybody is served before anything happens again.
      await served(callers, performance.now());
      const node = random.pick(world.nodes);
      const children = childrenOf(node.process!.gateway.process.pid!);
      const from = world.history.attempts.length;
      for (const caller of callers) caller.watch(performance.now());
      const killedAt = performance.now();
      const killed = node.kill();
      await until(() => livingAmong(children).length === 0, 'the children of the dead node to end');
      result['childrenMs']!.push(performance.now() - killedAt);
      await killed;
      await served(callers, killedAt, false);
      for (const caller of callers) {
        const { server, usableAt, troubled } = caller;
        const tookMs = usableAt! - killedAt;
        if (!troubled && tookMs < AFFECTED_MS) continue;
        result[server === 'own' || server === 'single' ? 'ownedMs' : 'leaselessMs']!.push(tookMs);
        if (tookMs > LONG_MS) stories.push(story(world, caller, killedAt));
      }
      result['unknownMs']!.push(...toldUnknown(world, node.name, killedAt, from));
      spawnMs.push(await spawnTime(world));
      await node.start();
      if (i % 10 === 0 || i === losses) say?.(`${i} of ${losses} kills, ${world.history.attempts.length} calls`);
    }
    await Promise.all(callers.map((caller) => caller.end()));
    const { unknownMs, leaselessMs, ownedMs, childrenMs } = result as never as LossResult;
    const violations = inWords(world.violations());
    const lost = world.lost();
    const endings = world.history.endings();
    await Promise.all(world.nodes.map((one) => one.leave()));
    left = (await world.left()).length;
    const calls = world.history.attempts.length;
    return { calls, spawnMs, unknownMs, leaselessMs, ownedMs, childrenMs, stories, endings, violations, lost, left };
  } finally {
    await world.dispose();
  }
}

/** Waits until each client had a result of a call that it began after `since`. */
export async function served(callers: readonly Caller[], since: number, watch = true): Promise<void> {
  if (watch) for (const caller of callers) caller.watch(since);
  await until(
    () => callers.every(({ usableAt }) => usableAt !== null),
    `every client to be served: ${callers.filter(({ usableAt }) => usableAt === null).map(({ client, server }) => `${client.name} ${server}`)}`,
  );
}

/** What a client lived through until it was served again. */
function story({ history }: ClusterWorld, { client, server, usableAt }: Caller, killedAt: number): string {
  const attempts = history.attempts.filter(
    ({ client: name, endedAt, startedAt }) => name === client.name && endedAt! >= killedAt && startedAt <= usableAt!,
  );
  const told = attempts.map(
    ({ ending, via, startedAt, endedAt, reason }) =>
      `${Math.round(startedAt - killedAt)}-${Math.round(endedAt! - killedAt)} ${ending} at ${via} ${ending === 'RESULT' ? '' : reason}`,
  );
  return `${client.name} (${server}): ${told.join('; ')}`;
}

/** How long those waited who called through another node and heard UNKNOWN. */
function toldUnknown({ history }: ClusterWorld, dead: string, killedAt: number, from: number): number[] {
  return history.attempts
    .slice(Math.max(0, from - 1_000))
    .filter(({ ending, via, endedAt }) => ending === 'UNKNOWN' && via !== dead && endedAt! >= killedAt)
    .filter(({ startedAt }) => startedAt < killedAt + TOLD_WITHIN_MS)
    .map(({ startedAt, endedAt }) => endedAt! - Math.max(startedAt, killedAt));
}

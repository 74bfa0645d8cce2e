import { ClusterWorld } from '../../chaos/cluster-world.ts';
import { Seeded } from '../../chaos/seeded.ts';
import { until } from '../../support/cluster-processes.ts';
import { childrenOf, livingAmong } from '../../support/processes.ts';
import { failedAt } from '../ledger/history.ts';
import { readLedger } from '../ledger/ledger-entry.ts';
import { type Caller, openCallers } from './callers.ts';
import { allKnown, inWords } from './world-facts.ts';

export interface LossOptions {
  readonly seed: number;
  /** Nodes that are killed, one after the other; each is started again. */
  readonly losses: number;
  readonly clients: number;
  readonly say?: (text: string) => void;
  /** How much later than its deadline a call may end. */
  readonly lateMs?: number;
}

/** Times in milliseconds. */
export interface LossResult {
  readonly calls: number;
  /** From the kill (or the call, where that was later) to UNKNOWN, of calls through other nodes. */
  readonly unknownMs: readonly number[];
  /**
   * From the kill to the next result of affected clients, if that needs no new process; otherwise from the kill to the
   * start of that process, and from there to the result.
   */
  readonly servedMs: readonly number[];
  readonly rebornMs: readonly number[];
  readonly spawnMs: readonly number[];
  /** From the kill to the end of the last child of the dead node. */
  readonly childrenMs: readonly number[];
  /** The histories of clients that were not served for more than three seconds. */
  readonly stories: readonly string[];
  readonly endings: Readonly<Record<string, number>>;
  readonly violations: readonly string[];
  /** Calls whose node was there all the time and never answered. */
  readonly lost: readonly string[];
  readonly left: number;
}

type Times = Record<'unknownMs' | 'servedMs' | 'rebornMs' | 'spawnMs' | 'childrenMs', number[]>;

/** A client that waits longer than this for a result was affected too, even without a failed call. */
const AFFECTED_MS = 500;
/** The whole history of a client that waits longer is reported. */
const LONG_MS = 3_000;
const REPORTED_WITHIN_MS = 2_000;

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
    const times = { unknownMs: [], servedMs: [], rebornMs: [], spawnMs: [], childrenMs: [] } as Times;
    for (let i = 1; i <= losses; i++) {
      await until(() => allKnown(world), 'all nodes to know each other');
      // Every client is served before the next kill.
      await served(callers, performance.now());
      const node = random.pick(world.nodes);
      const children = childrenOf(node.process!.gateway.process.pid!);
      const from = world.history.attempts.length;
      for (const caller of callers) caller.watch(performance.now());
      const killedAt = performance.now();
      const killed = node.kill();
      await until(() => livingAmong(children).length === 0, 'the children of the dead node to end');
      times.childrenMs.push(performance.now() - killedAt);
      await killed;
      await served(callers, killedAt, false);
      const births = birthsOf(world);
      for (const caller of callers) {
        const { usableAt, usableBy, troubled } = caller;
        if (!troubled && usableAt! - killedAt < AFFECTED_MS) continue;
        const bornAt = births.get(usableBy) ?? 0;
        if (bornAt < killedAt) times.servedMs.push(usableAt! - killedAt);
        else {
          times.rebornMs.push(bornAt - killedAt);
          times.spawnMs.push(usableAt! - bornAt);
        }
        if (Math.min(usableAt!, Math.max(bornAt, killedAt)) - killedAt > LONG_MS)
          stories.push(story(world, caller, killedAt));
      }
      times.unknownMs.push(...reportedUnknown(world, node.name, killedAt, from));
      await node.start();
      if (i % 10 === 0 || i === losses) say?.(`${i} of ${losses} kills, ${world.history.attempts.length} calls`);
    }
    await Promise.all(callers.map((caller) => caller.end()));
    const violations = inWords(world.violations());
    const lost = world.lost();
    const endings = world.history.endings();
    await Promise.all(world.nodes.map((one) => one.leave()));
    left = (await world.left()).length;
    const calls = world.history.attempts.length;
    return { calls, ...times, stories, endings, violations, lost, left };
  } finally {
    await Promise.all(callers.map((caller) => caller.end()));
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

/** The calls of a client until it was served again. */
function story({ history }: ClusterWorld, { client, server, usableAt }: Caller, killedAt: number): string {
  const attempts = history.attempts.filter(
    ({ client: name, endedAt, startedAt }) => name === client.name && endedAt! >= killedAt && startedAt <= usableAt!,
  );
  const reported = attempts.map(
    ({ ending, via, startedAt, endedAt, reason }) =>
      `${Math.round(startedAt - killedAt)}-${Math.round(endedAt! - killedAt)} ${ending} at ${via} ${ending === 'RESULT' ? '' : reason}`,
  );
  return `${client.name} (${server}): ${reported.join('; ')}`;
}

/** For each call that a process with an owner executed: when the process started, by the clock of attempts. */
function birthsOf(world: ClusterWorld): ReadonlyMap<string, number> {
  const births = new Map<string, number>();
  for (const entry of ['own', 'single'].flatMap((server) => readLedger(world.ledger(server)))) {
    if (entry.event === 'executed' && entry.bornAt !== undefined) {
      births.set(entry.call, entry.bornAt - performance.timeOrigin);
    }
  }
  return births;
}

/** How long clients that called through another node waited for UNKNOWN. */
function reportedUnknown({ history }: ClusterWorld, dead: string, killedAt: number, from: number): number[] {
  return history.attempts
    .slice(Math.max(0, from - 1_000))
    .filter(({ ending, via, endedAt }) => ending === 'UNKNOWN' && via !== dead && endedAt! >= killedAt)
    .filter((attempt) => failedAt(attempt, dead))
    .filter(({ startedAt }) => startedAt < killedAt + REPORTED_WITHIN_MS)
    .map(({ startedAt, endedAt }) => endedAt! - Math.max(startedAt, killedAt));
}

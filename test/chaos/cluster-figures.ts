import { type Attempt, failedAt } from '../faults/ledger/history.ts';
import type { LedgerEntry } from '../faults/ledger/ledger-entry.ts';
import type { Struck } from './nemesis.ts';
import { overlap, type Span, timeWithin } from './standstills.ts';

/** A time in milliseconds, and how much of it the machine let the node stand still that answered then. */
export interface Timed {
  readonly ms: number;
  readonly stoodMs: number;
}

/** What G5 wants to know. */
export interface ClusterFigures {
  /** Deaths beside which nothing else struck; the times are of those. */
  readonly deaths: number;
  /** Of those, how many have a time in which the node that answered stood still. */
  readonly stood: number;
  /** From the end of a node to the answer of each call that other nodes had passed on to it. */
  readonly inFlight: readonly Timed[];
  /**
   * From then, or from when a client first asked again, to the next result of the session, where that needs no new process;
   * where it does, to the birth of that process,
   */
  readonly next: readonly Timed[];
  readonly reborn: readonly Timed[];
  /** and from there to its result, in milliseconds. */
  readonly spawn: readonly number[];
}

/** So long before and after a death nothing else may strike for its figures to be its own. */
const CALM_BEFORE_MS = 1_000;
const CALM_AFTER_MS = 3_000;
/** Only calls of these are passed on to other nodes; the rest is served where it comes in. */
const OWNED: ReadonlySet<string> = new Set(['own', 'single']);

/**
 * Looks only at deaths beside which nothing else struck, so that the figures are those of a death: what began before, was
 * with the dead node, and is UNKNOWN at one that lives. `stood`: when each node stood still; it counts where that node
 * answered, because what it would have told meanwhile nobody knows. `origin`: of the clock of attempts, by the wall clock.
 */
export function clusterFigures(
  attempts: readonly Attempt[],
  struck: readonly Struck[],
  ledger: readonly LedgerEntry[],
  origin: number,
  stood: ReadonlyMap<string, readonly Span[]> = new Map(),
): ClusterFigures {
  const none = { inFlight: [] as Timed[], next: [] as Timed[], reborn: [] as Timed[], spawn: [] as number[] };
  const figures = { deaths: 0, stood: 0, ...none };
  const births = new Map<string, number>();
  for (const entry of ledger) {
    if (entry.event === 'executed' && entry.bornAt !== undefined) births.set(entry.call, entry.bornAt - origin);
  }
  const timed = (via: string | undefined, from: number, to: number): Timed => ({
    ms: to - from,
    stoodMs: timeWithin(stood.get(via ?? '') ?? [], { from, to }),
  });
  for (const death of struck) {
    if (death.kind !== 'kill' || struck.some((other) => other !== death && disturbs(other, death))) continue;
    const found = timesOf(death, attempts, births, timed);
    figures.deaths++;
    if ([...found.inFlight, ...found.next, ...found.reborn].some(({ stoodMs }) => stoodMs > 0)) figures.stood++;
    figures.inFlight.push(...found.inFlight);
    figures.next.push(...found.next);
    figures.reborn.push(...found.reborn);
    figures.spawn.push(...found.spawn);
  }
  return figures;
}

/** What a time is judged by: without what the machine took of it. */
export function judgedMs({ ms, stoodMs }: Timed): number {
  return ms - stoodMs;
}

function timesOf(
  death: Struck,
  attempts: readonly Attempt[],
  births: ReadonlyMap<string, number>,
  timed: (via: string | undefined, from: number, to: number) => Timed,
): Omit<ClusterFigures, 'deaths' | 'stood'> {
  const times = { inFlight: [] as Timed[], next: [] as Timed[], reborn: [] as Timed[], spawn: [] as number[] };
  const diedAt = death.from;
  const asked = new Map<
    string,
    { readonly since: number; until: number; via: string | undefined; answered: boolean }
  >();
  for (const attempt of attempts) {
    const { client, call, server = '', via, startedAt, endedAt, ending, abandoned } = attempt;
    if (endedAt === null || endedAt < diedAt || via === death.node || abandoned) continue;
    if (startedAt <= diedAt) {
      const wasThere = OWNED.has(server) && failedAt(attempt, death.node!);
      if (ending === 'UNKNOWN' && wasThere) times.inFlight.push(timed(via, diedAt, endedAt));
      continue;
    }
    // Who asks again only later learns nothing of when it would have been served.
    if (startedAt > diedAt + CALM_AFTER_MS) continue;
    const name = `${client} ${server}`;
    const session = asked.get(name) ?? { since: startedAt, until: endedAt, via, answered: false };
    asked.set(name, session);
    if (session.answered) continue;
    session.until = endedAt;
    session.via = via;
    if (ending !== 'RESULT') continue;
    session.answered = true;
    const bornAt = births.get(call) ?? 0;
    if (bornAt < session.since) times.next.push(timed(via, session.since, endedAt));
    else {
      times.reborn.push(timed(via, session.since, bornAt));
      times.spawn.push(endedAt - bornAt);
    }
  }
  for (const { since, until, via, answered } of asked.values()) {
    if (!answered && until - since > CALM_AFTER_MS) times.next.push(timed(via, since, until));
  }
  return times;
}

function disturbs(other: Span, death: Struck): boolean {
  return overlap(other, { from: death.from - CALM_BEFORE_MS, to: death.from + CALM_AFTER_MS });
}

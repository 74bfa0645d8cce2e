import { type Attempt, failedAt } from '../faults/ledger/history.ts';
import type { LedgerEntry } from '../faults/ledger/ledger-entry.ts';
import type { Struck } from './nemesis.ts';
import { overlap, type Span, timeWithin } from './standstills.ts';

/** A time in milliseconds, and the part of it during which the node that answered stood still. */
export interface Timed {
  readonly ms: number;
  readonly stoodMs: number;
}

/** The figures that G5 requires. */
export interface ClusterFigures {
  /** Deaths of nodes with no other fault nearby; the times are those of these deaths. */
  readonly deaths: number;
  /** The number of these deaths that have a time in which the node that answered stood still. */
  readonly stood: number;
  /** From the end of a node to the answer of each call that other nodes had passed on to it. */
  readonly inFlight: readonly Timed[];
  /**
   * From the first call of a session after the death to the next result of the session, where that needs no new process;
   * where it does, to the start of that process (`reborn`).
   */
  readonly next: readonly Timed[];
  readonly reborn: readonly Timed[];
  /** From the start of that process to the result, in milliseconds. */
  readonly spawn: readonly number[];
}

/** A death counts only if no other fault happens within these times before and after it. */
const CALM_BEFORE_MS = 1_000;
const CALM_AFTER_MS = 3_000;
/** Only calls of these servers are passed on to other nodes; all others are served at the node that receives them. */
const OWNED: ReadonlySet<string> = new Set(['own', 'single']);

/**
 * Looks only at deaths with no other fault nearby, so that the figures are those of the death alone. `inFlight` are calls
 * that began before it, were at the dead node, and are UNKNOWN at a living one. `stood`: when each node stood still; it counts
 * for the node that answered, which could not answer meanwhile. `origin`: of the clock of attempts, by the wall clock.
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

/** The part of a time that is judged: without the standstill of the node. */
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
    // A first call that comes later does not show when the session could have been served.
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

import { type Attempt, failedAt } from '../faults/ledger/history.ts';
import type { LedgerEntry } from '../faults/ledger/ledger-entry.ts';
import type { Struck } from './nemesis.ts';
import { overlap, type Span } from './standstills.ts';

/** What G5 wants to know, in milliseconds. */
export interface ClusterFigures {
  /** From the end of a node to the answer of each call that other nodes had passed on to it. */
  readonly inFlight: readonly number[];
  /**
   * From then, or from when a client first asked again, to the next result of the session, where that needs no new process;
   * where it does, to the birth of that process,
   */
  readonly next: readonly number[];
  readonly reborn: readonly number[];
  /** and from there to its result. */
  readonly spawn: readonly number[];
  /** Deaths that are left out because the machine let a process of a node stand still then. */
  readonly stood: number;
}

/** So long before and after a death nothing else may strike for its figures to be its own. */
const CALM_BEFORE_MS = 1_000;
const CALM_AFTER_MS = 3_000;
/** Only calls of these are passed on to other nodes; the rest is served where it comes in. */
const OWNED: ReadonlySet<string> = new Set(['own', 'single']);

/**
 * Looks only at deaths beside which nothing else went on, and no node `stood` still, so that the figures are those of a
 * death: what began before, was with the dead node, and is UNKNOWN at one that lives. `origin`: of the clock of attempts, by
 * the wall clock.
 */
export function clusterFigures(
  attempts: readonly Attempt[],
  struck: readonly Struck[],
  ledger: readonly LedgerEntry[],
  origin: number,
  stood: readonly Span[] = [],
): ClusterFigures {
  const none = { inFlight: [] as number[], next: [] as number[], reborn: [] as number[], spawn: [] as number[] };
  const figures = { ...none, stood: 0 };
  const births = new Map<string, number>();
  for (const entry of ledger) {
    if (entry.event === 'executed' && entry.bornAt !== undefined) births.set(entry.call, entry.bornAt - origin);
  }
  for (const death of struck) {
    if (death.kind !== 'kill' || struck.some((other) => other !== death && disturbs(other, death))) continue;
    if (stood.some((still) => disturbs(still, death))) {
      figures.stood++;
      continue;
    }
    const diedAt = death.from;
    const asked = new Map<string, { readonly since: number; until: number; answered: boolean }>();
    for (const attempt of attempts) {
      const { client, call, server = '', via, startedAt, endedAt, ending, abandoned } = attempt;
      if (endedAt === null || endedAt < diedAt || via === death.node || abandoned) continue;
      if (startedAt <= diedAt) {
        const wasThere = OWNED.has(server) && failedAt(attempt, death.node!);
        if (ending === 'UNKNOWN' && wasThere) figures.inFlight.push(endedAt - diedAt);
        continue;
      }
      // Who asks again only later learns nothing of when it would have been served.
      if (startedAt > diedAt + CALM_AFTER_MS) continue;
      const name = `${client} ${server}`;
      const session = asked.get(name) ?? { since: startedAt, until: endedAt, answered: false };
      asked.set(name, session);
      if (session.answered) continue;
      session.until = endedAt;
      if (ending !== 'RESULT') continue;
      session.answered = true;
      const bornAt = births.get(call) ?? 0;
      if (bornAt < session.since) figures.next.push(endedAt - session.since);
      else {
        figures.reborn.push(bornAt - session.since);
        figures.spawn.push(endedAt - bornAt);
      }
    }
    for (const { since, until, answered } of asked.values()) {
      if (!answered && until - since > CALM_AFTER_MS) figures.next.push(until - since);
    }
  }
  return figures;
}

function disturbs(other: Span, death: Struck): boolean {
  return overlap(other, { from: death.from - CALM_BEFORE_MS, to: death.from + CALM_AFTER_MS });
}

import type { Attempt } from '../faults/ledger/history.ts';
import { REMOTES } from './cluster-world.ts';
import type { Struck } from './nemesis.ts';

/** So long before and after a death nothing else may strike for its figures to be its own. */
const CALM_BEFORE_MS = 1_000;
const CALM_AFTER_MS = 3_000;

/** What G5 wants to know, in milliseconds. */
export interface ClusterFigures {
  /** From the end of a node to the answer of each call that other nodes had passed on to it. */
  readonly inFlight: readonly number[];
  /** From then, or from when a client first asked again, to the next result of the session: of servers behind URLs, */
  readonly nextOfRemotes: readonly number[];
  /** and of those that need a process. */
  readonly nextOfProcesses: readonly number[];
}

/**
 * Looks only at deaths beside which nothing else went on, so that the figures are those of a death: what is UNKNOWN at a
 * node that lives, and began before, was with the dead one.
 */
export function clusterFigures(attempts: readonly Attempt[], struck: readonly Struck[]): ClusterFigures {
  const inFlight: number[] = [];
  const nextOfRemotes: number[] = [];
  const nextOfProcesses: number[] = [];
  for (const death of struck) {
    if (death.kind !== 'kill' || struck.some((other) => other !== death && disturbs(other, death))) continue;
    const diedAt = death.from;
    const sessions = new Map<string, { asked: number; remote: boolean }>();
    const answered = new Set<string>();
    for (const { client, server = '', via, startedAt, endedAt, ending } of attempts) {
      if (endedAt === null || endedAt < diedAt || via === death.node) continue;
      if (startedAt <= diedAt) {
        if (ending === 'UNKNOWN') inFlight.push(endedAt - diedAt);
        continue;
      }
      if (startedAt > diedAt + CALM_AFTER_MS) continue;
      const session = `${client} ${server}`;
      if (answered.has(session)) continue;
      const known = sessions.get(session) ?? { asked: startedAt, remote: REMOTES.some((name) => name === server) };
      sessions.set(session, known);
      if (ending !== 'RESULT') continue;
      answered.add(session);
      (known.remote ? nextOfRemotes : nextOfProcesses).push(endedAt - known.asked);
    }
  }
  return { inFlight, nextOfRemotes, nextOfProcesses };
}

function disturbs(other: Struck, death: Struck): boolean {
  return other.from <= death.from + CALM_AFTER_MS && other.to >= death.from - CALM_BEFORE_MS;
}

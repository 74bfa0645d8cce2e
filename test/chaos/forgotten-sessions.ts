import type { Attempt } from '../faults/ledger/history.ts';
import type { Struck } from './nemesis.ts';

/** So long may it take, after an outage, until all nodes know what was opened in it. */
const TELLS_MS = 3_000;
/** Whoever opened a session so shortly before the misfortune may not have told anybody yet. */
const SLACK_MS = 1_000;

interface Outage {
  readonly from: number;
  to: number;
}

/**
 * Sessions that some node did not know, though the one that opened them could tell. A node that does not reach NATS has
 * sessions that nobody else knows, until it has reached it again, or for ever where it is killed before. And while nobody
 * reaches it, or it has just lost everything, a node that has begun anew knows of none: it says so, and that it may be asked
 * again.
 */
export function forgottenSessions(attempts: readonly Attempt[], struck: readonly Struck[]): string[] {
  return attempts
    .filter(({ reason }) => /Session not found|has not read the cluster's sessions/.test(reason))
    .filter((attempt) => !mayKnowNone(attempt, struck) && !couldNotTell(attempt, struck))
    .map(({ call, via, opened, startedAt }) => {
      const age = opened === undefined ? 'unknown' : `${Math.round(startedAt - opened.at)} ms`;
      return `${call} at ${via}, opened at ${opened?.via}, ${age} before`;
    });
}

/** The one asked said that it knows of no session yet, and NATS was away just then: so it may be. */
function mayKnowNone({ reason, startedAt }: Attempt, struck: readonly Struck[]): boolean {
  if (!/not read the cluster's sessions/.test(reason)) return false;
  return struck.some(({ kind, from, to }) => isOfNats(kind) && from <= startedAt && to >= startedAt - TELLS_MS);
}

/** The node that opened the session had no way to the others: until just now, or until it was killed. */
function couldNotTell({ opened, startedAt }: Attempt, struck: readonly Struck[]): boolean {
  if (opened === undefined) return false;
  return outagesOf(struck, opened.via)
    .filter(({ from }) => from <= opened.at + SLACK_MS)
    .some(({ to }) => to >= startedAt - TELLS_MS || (to >= opened.at && killed(struck, opened, to)));
}

function isOfNats(kind: string): boolean {
  return kind.startsWith('nats');
}

/** When the node had no way to the others. What begins before it can have told what it had to is one with what was before. */
function outagesOf(struck: readonly Struck[], via: string): readonly Outage[] {
  const joined: Outage[] = [];
  const all = struck.filter(({ kind, node }) => isOfNats(kind) || (/^(cut|hold|stop)/.test(kind) && node === via));
  for (const { from, to } of all.sort((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last !== undefined && from <= last.to + TELLS_MS) last.to = Math.max(last.to, to);
    else joined.push({ from, to });
  }
  return joined;
}

/** Whether the node that opened a session during an outage was killed before it can have told anybody. */
function killed(struck: readonly Struck[], opened: NonNullable<Attempt['opened']>, outageTo: number): boolean {
  return struck.some(
    ({ kind, node, from }) =>
      kind === 'kill' && node === opened.via && from >= opened.at && from <= outageTo + TELLS_MS,
  );
}

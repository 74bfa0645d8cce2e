import type { Attempt } from '../faults/ledger/history.ts';
import type { Struck } from './nemesis.ts';

/** The longest time, after an outage, until all nodes know the sessions opened in it. */
const TELLS_MS = 3_000;
/** A node may not yet have announced a session that it opened this shortly before a fault. */
const SLACK_MS = 1_000;

interface Outage {
  readonly from: number;
  to: number;
}

/**
 * Sessions that some node did not know, though the node that opened them could announce them. A node that does not reach
 * NATS has sessions that no other node knows, until it reaches NATS again, or for ever if it is killed before. And while
 * NATS is away, or has just lost everything, a restarted node knows no sessions: it answers that, and that the client may
 * repeat the request.
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

/** The node answered that it has not read the sessions yet, and NATS was away just then: this is allowed. */
function mayKnowNone({ reason, startedAt }: Attempt, struck: readonly Struck[]): boolean {
  if (!/not read the cluster's sessions/.test(reason)) return false;
  return struck.some(({ kind, from, to }) => isOfNats(kind) && from <= startedAt && to >= startedAt - TELLS_MS);
}

/** The node that opened the session could not reach the others: until just now, or until it was killed. */
function couldNotTell({ opened, startedAt }: Attempt, struck: readonly Struck[]): boolean {
  if (opened === undefined) return false;
  return outagesOf(struck, opened.via)
    .filter(({ from }) => from <= opened.at + SLACK_MS)
    .some(({ to }) => to >= startedAt - TELLS_MS || (to >= opened.at && killed(struck, opened, to)));
}

function isOfNats(kind: string): boolean {
  return kind.startsWith('nats');
}

/** When the node could not reach the others. An outage that begins before the node has caught up is joined to the last. */
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

/** Whether the node that opened a session during an outage was killed before it can have announced it. */
function killed(struck: readonly Struck[], opened: NonNullable<Attempt['opened']>, outageTo: number): boolean {
  return struck.some(
    ({ kind, node, from }) =>
      kind === 'kill' && node === opened.via && from >= opened.at && from <= outageTo + TELLS_MS,
  );
}

import type { Attempt } from './history.ts';
import type { LedgerEntry } from './ledger-entry.ts';

export interface Evidence {
  readonly attempts: readonly Attempt[];
  readonly ledger: readonly LedgerEntry[];
  /** Tools that the operator lets the gateway run again. */
  readonly repeatable: ReadonlySet<string>;
  /** T: the longest deadline of any call of the run. */
  readonly deadlineMs: number;
  /** How much later than its deadline a call may end. 1 s, and more on a machine that does other things too. */
  readonly lateMs?: number;
  /** Names that acknowledged configuration writes put there, and those that are there in the end. */
  readonly acknowledged?: readonly string[];
  readonly present?: readonly string[];
}

export interface Violation {
  /** `owner` is that of `checkOwners`. */
  readonly rule: 'a' | 'b' | 'c' | 'd' | 'e' | 'f' | 'owner';
  readonly call: string;
  readonly text: string;
}

const LATE_MS = 1_000;

/**
 * Compares the outcomes that clients received with what the upstream executed.
 * (a) every RESULT was executed; (b) no NOT_SENT or REFUSED one was; (c) a call that may not be repeated ran at most once
 * for every attempt; (d) every answer is the answer to that request; (e) every call ended, in time; (f) no acknowledged
 * configuration write is missing.
 */
export function checkLedger(evidence: Evidence): Violation[] {
  const violations: Violation[] = [];
  const found = (rule: Violation['rule'], call: string, text: string): void => {
    violations.push({ rule, call, text });
  };
  const runs = new Map<string, number>();
  for (const entry of evidence.ledger) {
    if (entry.event === 'executed') runs.set(entry.call, (runs.get(entry.call) ?? 0) + 1);
  }
  const calls = byCall(evidence.attempts);
  for (const [call, attempts] of calls) {
    const count = runs.get(call) ?? 0;
    const mayHaveRun = attempts.filter(({ ending }) => ending !== 'NOT_SENT' && ending !== 'REFUSED').length;
    if (count === 0 && attempts.some(({ ending }) => ending === 'RESULT')) {
      found('a', call, 'the client got a result, the server never executed it');
    }
    if (count > 0 && mayHaveRun === 0) found('b', call, `${attempts[0]!.ending}, but executed ${count} times`);
    if (!evidence.repeatable.has(attempts[0]!.tool) && mayHaveRun > 0 && count > mayHaveRun) {
      found('c', call, `executed ${count} times in ${mayHaveRun} attempts`);
    }
    for (const attempt of attempts) checkAttempt(attempt, evidence, found);
  }
  for (const call of runs.keys()) {
    if (!calls.has(call)) found('a', call, 'executed, but nobody called it');
  }
  const present = new Set(evidence.present ?? []);
  for (const name of evidence.acknowledged ?? []) {
    if (!present.has(name)) found('f', name, 'an acknowledged configuration write is missing');
  }
  return violations;
}

function checkAttempt(
  attempt: Attempt,
  { deadlineMs, lateMs = LATE_MS }: Evidence,
  found: (rule: Violation['rule'], call: string, text: string) => void,
): void {
  const { call, rpcId, answeredId, answeredCall, ending, startedAt, endedAt, abandoned } = attempt;
  if (answeredId !== null && answeredId !== rpcId) found('d', call, `asked as ${rpcId}, answered as ${answeredId}`);
  if (ending === 'RESULT' && answeredCall !== call) found('d', call, `got the result of ${answeredCall}`);
  if (abandoned) return;
  if (ending === null || endedAt === null) found('e', call, 'never ended');
  else if (endedAt - startedAt > deadlineMs + (attempt.lateMs ?? lateMs)) {
    const how = `${ending} ${attempt.via === undefined ? '' : `at ${attempt.via} `}${attempt.reason.slice(0, 300)}`;
    found('e', call, `ended after ${Math.round(endedAt - startedAt)} ms, its deadline was ${deadlineMs} ms: ${how}`);
  }
}

function byCall(attempts: readonly Attempt[]): Map<string, Attempt[]> {
  const calls = new Map<string, Attempt[]>();
  for (const attempt of attempts) {
    const known = calls.get(attempt.call);
    if (known === undefined) calls.set(attempt.call, [attempt]);
    else known.push(attempt);
  }
  return calls;
}

import type { Violation } from './check-ledger.ts';
import type { Executed, LedgerEntry } from './ledger-entry.ts';

/** The process of the last execution for one key. */
interface Last {
  readonly pid: number;
  readonly epoch: string;
}

/**
 * Checks by the records of the processes that no key has two owners at once. `ledger` has the entries of all processes of
 * one server, in the order of writing; `keyOf` returns the key that only one process may serve at a time. For each key,
 * epochs never fall, and a process that was followed by another one executes nothing any more.
 */
export function checkOwners(ledger: readonly LedgerEntry[], keyOf: (entry: Executed) => string): Violation[] {
  const violations: Violation[] = [];
  const last = new Map<string, Last>();
  const followed = new Map<string, Set<number>>();
  for (const entry of ledger) {
    if (entry.event !== 'executed') continue;
    const key = keyOf(entry);
    const { call, pid, epoch = '' } = entry;
    const found = (text: string): void => {
      violations.push({ rule: 'owner', call, text: `${key}: ${text}` });
    };
    const before = last.get(key);
    if (epoch === '') found(`process ${pid} knows no epoch`);
    else if (before !== undefined && pid !== before.pid) {
      if (followed.get(key)?.has(pid)) found(`process ${pid} (${epoch}) executed it after ${before.pid} had begun`);
      else if (compareEpochs(epoch, before.epoch) < 0) found(`executed under ${epoch} after ${before.epoch}`);
      followed.set(key, (followed.get(key) ?? new Set()).add(before.pid));
    }
    last.set(key, { pid, epoch });
  }
  return violations;
}

/** Incarnation first, then revision. */
export function compareEpochs(a: string, b: string): number {
  const [ours, theirs] = [a, b].map((epoch) => epoch.split('.').map(BigInt));
  for (const [i, part] of ours!.entries()) {
    const other = theirs![i] ?? 0n;
    if (part !== other) return part < other ? -1 : 1;
  }
  return 0;
}

import { truthSum } from '../row-sum.ts';
import type { TruthWrite } from './truth.ts';
import { type TruthRow, tallied, type Whole } from './truth-whole.ts';

/** What a change comes to in rows, whatever database they are in. */
export type ChangePlan =
  | {
      readonly ok: true;
      /** Null where nothing changes. */
      readonly whole: Whole | null;
      readonly puts: readonly TruthRow[];
      readonly drops: readonly TruthRow[];
    }
  | { readonly ok: false; readonly write: TruthWrite; readonly found: number | null };

/**
 * Works out a change to what was found: the whole, and the rows of all its keys. Later writes see the earlier ones; one
 * that finds something else than it expects makes an end of all.
 */
export function planChange(before: Whole, found: readonly TruthRow[], writes: readonly TruthWrite[]): ChangePlan {
  const rows = new Map<string, TruthRow>(found.map((row) => [idOf(row), row]));
  const now = new Map(rows);
  const revision = before.revision + 1;
  let changed = false;
  for (const write of writes) {
    const { collection, key } = write;
    const id = idOf(write);
    const row = now.get(id);
    const seen = row?.revision ?? null;
    if (write.expected !== undefined && write.expected !== seen) return { ok: false, write, found: seen };
    if (write.kind === 'check' || (write.kind === 'delete' && row === undefined)) continue;
    changed = true;
    if (write.kind === 'delete') now.delete(id);
    else {
      const { value } = write;
      now.set(id, { collection, key, value, revision, sum: truthSum(collection, key, value, revision) });
    }
  }
  const puts = [...now.values()].filter((row) => row.revision === revision);
  const drops = [...rows].filter(([id]) => !now.has(id)).map(([, row]) => row);
  if (!changed) return { ok: true, whole: null, puts, drops };
  let { tally } = before;
  for (const row of rows.values()) tally = tallied(tally, row.sum);
  for (const row of now.values()) tally = tallied(tally, row.sum);
  return { ok: true, whole: { revision, count: before.count + now.size - rows.size, tally }, puts, drops };
}

function idOf({ collection, key }: { readonly collection: string; readonly key: string }): string {
  return `${collection}\0${key}`;
}

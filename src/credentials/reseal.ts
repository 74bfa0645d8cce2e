import { type Clock, pause } from '../model/clock.ts';
import type { Sealing } from '../model/sealing.ts';
import type { StoreRecord } from '../store/run-time-store/run-time-store.ts';
import { contextOf, type Records, recordsOf } from './credential-store.ts';

/** All sealed collections of the run-time store. */
const COLLECTIONS = ['credentials', 'logins', 'oauth_clients', 'secrets'] as const;
const LOOK_MS = 100;
/** A node claims a record for at most 20 s while it exchanges a token. */
const PATIENCE_MS = 30_000;

/**
 * Seals with the current key all records that another key sealed, each by compare-and-swap. Resolves with their number when no
 * record needs an old key any more, which may then be removed. Rejects if that takes longer than half a minute.
 */
export async function reseal(records: Records, sealing: Sealing, clock: Clock): Promise<number> {
  let sealed = 0;
  for (const end = clock.now() + PATIENCE_MS; ; await pause(clock, LOOK_MS)) {
    let left = 0;
    for (const collection of COLLECTIONS) {
      for await (const record of recordsOf(records, collection)) {
        const how = await resealRecord(records, sealing, collection, record, clock.wall());
        if (how === 'sealed') sealed++;
        if (how === 'later') left++;
      }
    }
    if (left === 0) return sealed;
    if (clock.now() > end)
      throw new Error(`${left} records are being changed all the time; nothing is lost, try again`);
  }
}

async function resealRecord(
  records: Records,
  sealing: Sealing,
  collection: string,
  { key, value, revision }: StoreRecord,
  now: number,
): Promise<'sealed' | 'later' | 'good'> {
  const context = contextOf(collection, key);
  const text = sealing.open(context, value);
  if (text === null || sealing.outdated?.(context, value) !== true) return 'good';
  // A node that exchanges a token writes the result over this revision, which must therefore stay.
  const { exchangeUntil } = JSON.parse(text) as { readonly exchangeUntil?: number | null };
  if (exchangeUntil != null && exchangeUntil > now) return 'later';
  const write = { kind: 'put', collection, key, value: sealing.seal(context, text), expected: revision } as const;
  return (await records.apply([write])).ok ? 'sealed' : 'later';
}

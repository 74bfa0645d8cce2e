import { type Clock, pause } from '../model/clock.ts';
import type { Sealing } from '../model/sealing.ts';
import type { StoreRecord } from '../store/run-time-store/run-time-store.ts';
import { contextOf, type Records, recordsOf } from './credential-store.ts';

/** All that is sealed in the run-time store. */
const COLLECTIONS = ['credentials', 'logins', 'oauth_clients', 'secrets'] as const;
const LOOK_MS = 100;
/** A node holds a record for 8 s at most while it exchanges a token. */
const PATIENCE_MS = 30_000;

/**
 * Seals with the key in force whatever another key has sealed, each record by compare and swap. Resolves with how many, when
 * none is left that an old key opens: only then may that be dropped. Rejects where that does not come about in half a minute.
 */
export async function sealAnew(records: Records, sealing: Sealing, clock: Clock): Promise<number> {
  let sealed = 0;
  for (const end = clock.now() + PATIENCE_MS; ; await pause(clock, LOOK_MS)) {
    let left = 0;
    for (const collection of COLLECTIONS) {
      for await (const record of recordsOf(records, collection)) {
        const how = await sealedAnew(records, sealing, collection, record, clock.wall());
        if (how === 'sealed') sealed++;
        if (how === 'later') left++;
      }
    }
    if (left === 0) return sealed;
    if (clock.now() > end)
      throw new Error(`${left} records are being changed all the time; nothing is lost, try again`);
  }
}

async function sealedAnew(
  records: Records,
  sealing: Sealing,
  collection: string,
  { key, value, revision }: StoreRecord,
  now: number,
): Promise<'sealed' | 'later' | 'good'> {
  const context = contextOf(collection, key);
  const text = sealing.open(context, value);
  if (text === null || sealing.outdated?.(context, value) !== true) return 'good';
  // A node that exchanges a token writes what it gets over this very revision, or has lost it.
  const { exchangeUntil } = JSON.parse(text) as { readonly exchangeUntil?: number | null };
  if (exchangeUntil != null && exchangeUntil > now) return 'later';
  const write = { kind: 'put', collection, key, value: sealing.seal(context, text), expected: revision } as const;
  return (await records.apply([write])).ok ? 'sealed' : 'later';
}

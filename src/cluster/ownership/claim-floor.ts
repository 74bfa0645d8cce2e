import type { LazyBucket } from '../lazy-bucket.ts';

const KEY = 'forgotten';
const ATTEMPTS = 5;

/** Claims with this revision or a lower one may have been forgotten; 0: none was. */
export async function forgottenUpTo(claims: LazyBucket): Promise<number> {
  const present = await claims.get(KEY);
  return present === null ? 0 : floorIn(present.value);
}

/** To be done before a claim of that revision is forgotten. Never falls. */
export async function raiseFloor(claims: LazyBucket, revision: number): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const present = await claims.get(KEY);
    if (present !== null && floorIn(present.value) >= revision) return;
    const value = Buffer.from(String(revision));
    const written = present === null ? claims.create(KEY, value) : claims.update(KEY, value, present.revision);
    if ((await written) !== null) return;
  }
  throw new Error('others write the floor of the claims all the time');
}

/** What cannot be read counts as everything: then no process is believed to be newer than what was forgotten. */
function floorIn(value: Buffer): number {
  const revision = Number(value.toString());
  return Number.isSafeInteger(revision) ? revision : Number.MAX_SAFE_INTEGER;
}

import { createHash } from 'node:crypto';
import type { StateRecord } from '../../bus/shared-state.ts';
import type { LazyBucket } from '../lazy-bucket.ts';

/** The floor of a bucket of claims. */
const FLOOR = 'forgotten';
const ATTEMPTS = 5;

/** What is written of a claim. Without a peer it is free, and says only which epochs are used up. */
export interface Claimed {
  readonly node: string;
  /** Empty: free. */
  readonly peer: string;
  /** Revision in which the present owner began; null: in this very one. */
  readonly since: number | null;
}

export function claimText(claimed: Claimed): Buffer {
  return Buffer.from(JSON.stringify(claimed));
}

/** What cannot be read is as good as free: the write that follows names its revision. */
export function readClaim({ value }: StateRecord): Claimed {
  try {
    const { node, peer, since } = JSON.parse(value.toString()) as Claimed;
    return { node: String(node), peer: String(peer), since: typeof since === 'number' ? since : null };
  } catch {
    return { node: '', peer: '', since: null };
  }
}

export function recordKey({ server, key }: { readonly server: string; readonly key: string }): string {
  const digest = createHash('sha256').update(`${server}\n${key}`).digest('hex').slice(0, 40);
  return `own.${digest}`;
}

/** Claims with this revision or a lower one may have been forgotten; 0: none was. */
export async function forgottenUpTo(claims: LazyBucket): Promise<number> {
  const present = await claims.get(FLOOR);
  return present === null ? 0 : floorIn(present.value);
}

/** To be done before a claim of that revision is forgotten. Never falls. */
export async function raiseFloor(claims: LazyBucket, revision: number): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const present = await claims.get(FLOOR);
    if (present !== null && floorIn(present.value) >= revision) return;
    const value = Buffer.from(String(revision));
    const written = present === null ? claims.create(FLOOR, value) : claims.update(FLOOR, value, present.revision);
    if ((await written) !== null) return;
  }
  throw new Error('others write the floor of the claims all the time');
}

/** What cannot be read counts as everything: then no process is believed to be newer than what was forgotten. */
function floorIn(value: Buffer): number {
  const revision = Number(value.toString());
  return Number.isSafeInteger(revision) ? revision : Number.MAX_SAFE_INTEGER;
}

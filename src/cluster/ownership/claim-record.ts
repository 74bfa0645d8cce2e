import { hash } from 'node:crypto';
import type { Bucket, StateRecord } from '../../bus/shared-state.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { NodeLease } from '../lease/node-lease.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { compareAndSet, jsonIn } from '../store-records.ts';

const FLOOR = 'forgotten';
const ATTEMPTS = 5;

/** Dependencies that the classes of claims share. */
export interface ClaimContext {
  readonly deps: Pick<ClusterDeps, 'bus' | 'clock' | 'logger' | 'node'>;
  /** Bucket with the claims of all nodes, without TTL. */
  readonly store: Bucket;
  /** Bucket with the leases of all nodes. */
  readonly leases: Bucket;
  readonly lease: Pick<NodeLease, 'held' | 'since' | 'returning'>;
  readonly nodes: Pick<Nodes, 'first' | 'markSilent' | 'get' | 'others'>;
}

/** The value of a claim record. Without a peer the claim is free, and the record only shows that it had an owner. */
export interface ClaimRecord {
  readonly node: string;
  readonly peer: string;
  /** Revision at which the owner took the claim; null: the record's own revision. */
  readonly since: number | null;
}

export function claimText(claimed: ClaimRecord): Buffer {
  return Buffer.from(JSON.stringify(claimed));
}

/** Reads a claim record; an unreadable one counts as free. */
export function readClaim({ value }: StateRecord): ClaimRecord {
  const { node, peer, since } = jsonIn<ClaimRecord>(value) ?? { node: '', peer: '', since: null };
  return { node: String(node), peer: String(peer), since: typeof since === 'number' ? since : null };
}

export function recordKey({ server, key }: { readonly server: string; readonly key: string }): string {
  return `own.${hash('sha256', `${server}\n${key}`).slice(0, 40)}`;
}

/** Returns the floor: claims up to this revision may have been deleted. 0 if none was. */
export async function readFloor(claims: Bucket): Promise<number> {
  const present = await claims.get(FLOOR);
  return present === null ? 0 : floorIn(present.value);
}

/** Raises the floor; call it before a claim of that revision is deleted. The floor never falls. */
export async function raiseFloor(claims: Bucket, revision: number): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const present = await claims.get(FLOOR);
    if (present !== null && floorIn(present.value) >= revision) return;
    if ((await compareAndSet(claims, FLOOR, Buffer.from(String(revision)), present)) !== null) return;
  }
  throw new Error('others write the floor of the claims all the time');
}

/** An unreadable floor counts as the highest, so that no warm process counts as newer than a deleted claim. */
function floorIn(value: Buffer): number {
  const revision = Number(value.toString());
  return Number.isSafeInteger(revision) ? revision : Number.MAX_SAFE_INTEGER;
}

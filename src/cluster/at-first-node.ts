import type { Bucket } from '../bus/shared-state.ts';
import { every } from '../model/clock.ts';
import type { ClusterDeps } from './cluster-deps.ts';

/** How long tombstones are kept at least. */
export const TOMBSTONE_RETENTION_MS = 3_600_000;
const FORGET_MS = 10 * 60_000;

export interface FirstNodeDeps extends Pick<ClusterDeps, 'bus' | 'clock' | 'logger'> {
  readonly nodes: { others(): Iterable<{ readonly peer: string }> };
}

/** Runs `task` every `everyMs` on the node with the lowest peer id. Logs `failed` if it rejects. Returns a function to stop. */
export function atFirstNode(
  { bus, clock, logger, nodes }: FirstNodeDeps,
  everyMs: number,
  failed: string,
  task: () => Promise<void>,
): () => void {
  return every(clock, everyMs, async () => {
    const first = [...nodes.others()].every(({ peer }) => peer > bus.peer);
    if (first) await task().catch((error) => logger.debug(failed, { error: String(error) }));
  });
}

/** Removes old tombstones from the bucket, on one node. Returns a function to stop. */
export function purgeTombstonesPeriodically(deps: FirstNodeDeps, bucket: Bucket): () => void {
  return atFirstNode(deps, FORGET_MS, 'deletion_marks_not_forgotten', async () => {
    const marks = await bucket.purgeTombstones(TOMBSTONE_RETENTION_MS);
    if (marks > 0) deps.logger.debug('deletion_marks_forgotten', { bucket: bucket.name, marks });
  });
}

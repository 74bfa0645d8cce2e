import type { ClusterDeps } from './cluster-deps.ts';

interface FirstNodeDeps extends Pick<ClusterDeps, 'bus' | 'clock' | 'logger'> {
  readonly others: () => readonly string[];
}

/** Runs a task every so often at one node, the one with the first name. The returned function ends that. `failed`: is logged. */
export function atFirstNode(
  { bus, clock, logger, others }: FirstNodeDeps,
  everyMs: number,
  failed: string,
  task: () => Promise<void>,
): () => void {
  let ended = false;
  let stop = (): void => {};
  const run = async (): Promise<void> => {
    if (!others().some((peer) => peer < bus.peer))
      await task().catch((error) => logger.debug(failed, { error: String(error) }));
    if (!ended) later();
  };
  const later = (): void => {
    stop = clock.after(everyMs, () => void run());
  };
  later();
  return () => {
    ended = true;
    stop();
  };
}

/** A delay that doubles with every step. */
export interface Backoff {
  readonly initialMs: number;
  readonly maxMs: number;
  /** Share of a delay that chance may take away, so that many do not come back at one instant. */
  readonly jitter: number;
}

/** How much longer each delay is than the one before (S3.1). */
export const BACKOFF_MULTIPLIER = 2;
/** Beyond so many doublings every curve has long met its bound. */
const MAX_STEPS = 30;

/** The delay after so many steps, 0 for the first; `unit` is a random number of 0 to below 1. */
export function backoffMs({ initialMs, maxMs, jitter }: Backoff, steps: number, unit: number): number {
  return Math.round(
    Math.min(maxMs, initialMs * BACKOFF_MULTIPLIER ** Math.min(steps, MAX_STEPS)) * (1 - jitter * unit),
  );
}

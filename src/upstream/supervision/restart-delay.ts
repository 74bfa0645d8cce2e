import { type Backoff, backoffMs } from '../../model/backoff.ts';

const SECOND = 1_000;

/** S3.1 */
export const INITIAL_BACKOFF_MS = 30 * SECOND;
export const MAX_BACKOFF_MS = 30 * 60 * SECOND;
const CURVE: Backoff = { initialMs: INITIAL_BACKOFF_MS, maxMs: MAX_BACKOFF_MS, jitter: 0.2 };
/** S3.2: consecutive failures after which a remote server counts as unreachable. */
export const UNREACHABLE_THRESHOLD = 3;
/** Delays of a local process after its first and second failed start: a crash is often over with the next start. */
const LOCAL_DELAYS_MS = [1 * SECOND, 2 * SECOND];

/**
 * How long to wait before the next start after so many failed ones in a row (1 or more). A local process that
 * crashed while it was healthy has none to its name, and is started at once (F01); remote servers follow S3.1 from
 * their first failure.
 */
export function restartDelayMs(failures: number, local: boolean, unit: number): number {
  if (failures < 1) return 0;
  const quick = local ? LOCAL_DELAYS_MS[failures - 1] : undefined;
  if (quick !== undefined) return backoffMs({ ...CURVE, initialMs: quick }, 0, unit);
  return backoffMs(CURVE, failures - 1 - (local ? LOCAL_DELAYS_MS.length : 0), unit);
}

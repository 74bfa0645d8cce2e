import { backoffMs } from '../../model/backoff.ts';

/**
 * Time constants of the HTTP wires. None of them bounds how long a call may take: that is the call's deadline alone.
 * Connecting (5 s), a head once begun (10 s) and a pause within a JSON body (30 s) are bounded by the HTTP client.
 */
export interface HttpLimits {
  /** A stream that carried its answer and was not ended by the server is cut after this. */
  readonly lingerMs: number;
  /** After the server disowned session or credentials, the others' verdicts may be this far apart. */
  readonly settleMs: number;
  /** `notifications/initialized` goes ahead of everything else; what follows waits for its acceptance this long. */
  readonly initializedMs: number;
  /** DELETE of the session, and what is still being posted, at close. */
  readonly closeMs: number;
  /** Back-off of stream reconnects where the server named no `retry`; doubled each time, with jitter. */
  readonly reconnectMs: number;
  readonly reconnectMaxMs: number;
  /** Reconnects of one broken reply stream in a row that bring no event. */
  readonly resumeAttempts: number;
  /** 2024-11-05: from opening the stream to its `endpoint` event. */
  readonly endpointMs: number;
}

/** Share of a delay that chance takes away. */
const JITTER = 0.5;

export const HTTP_LIMITS: HttpLimits = {
  lingerMs: 5_000,
  settleMs: 250,
  initializedMs: 5_000,
  closeMs: 2_000,
  reconnectMs: 500,
  reconnectMaxMs: 30_000,
  resumeAttempts: 5,
  endpointMs: 30_000,
};

/** How long to wait before a stream is opened again after so many attempts in vain, 0 for the first. */
export function reconnectDelayMs(limits: HttpLimits, attempt: number, unit: number): number {
  return backoffMs({ initialMs: limits.reconnectMs, maxMs: limits.reconnectMaxMs, jitter: JITTER }, attempt, unit);
}

import { type Backoff, backoffMs, type Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Ownership } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { loginAdvice, type ServerState } from '../../model/server-state.ts';
import { failureClass, isMissingLease } from '../health/failure-class.ts';

const SECOND = 1_000;

/** S3.1 */
export const INITIAL_BACKOFF_MS = 30 * SECOND;
export const MAX_BACKOFF_MS = 30 * 60 * SECOND;
const CURVE: Backoff = { initialMs: INITIAL_BACKOFF_MS, maxMs: MAX_BACKOFF_MS, jitter: 0.2 };
/** S3.2: consecutive failures after which a remote server counts as unreachable. */
export const UNREACHABLE_THRESHOLD = 3;
/** Delays after the first and second failed start of a local process: the next start often succeeds. */
const LOCAL_DELAYS_MS = [1 * SECOND, 2 * SECOND];

/**
 * The delay before the next start after this many consecutive failures. A local process that crashed when healthy has none and
 * restarts at once (F01); remote servers follow S3.1 from their first failure.
 */
export function restartDelayMs(failures: number, local: boolean, unit: number): number {
  if (failures < 1) return 0;
  const quick = local ? LOCAL_DELAYS_MS[failures - 1] : undefined;
  if (quick !== undefined) return backoffMs({ ...CURVE, initialMs: quick }, 0, unit);
  return backoffMs(CURVE, failures - 1 - (local ? LOCAL_DELAYS_MS.length : 0), unit);
}

/** The error for a call to a server in this state; `error`: the cause of the state. */
export function stateError(
  server: string,
  state: ServerState,
  error: GatewayError | null,
  afterMs: number,
  advice = loginAdvice(server),
): GatewayError {
  const notSent = (text: string, more: { readonly retryable?: false; readonly retryAfterMs?: number }) =>
    new GatewayError('NOT_SENT', `${server} is ${text}`, { server, state, ...more, cause: error ?? undefined });
  switch (state) {
    case 'auth_required':
      return new GatewayError('AUTH_REQUIRED', `${server} asks for credentials; ${advice}`, { server, state });
    case 'misconfigured':
      return notSent(`misconfigured: ${error?.message}`, { retryable: false });
    case 'defect':
      return notSent(`out of service until it is restarted: ${error?.message}`, { retryable: false });
    case 'suspended':
    case 'stopped':
    case 'disconnected':
    case 'stopping':
      return new GatewayError('NOT_SENT', `${server} is ${state}`, { server, state, retryable: false });
    default:
      if (state === 'failed' && error?.code === 'OVERLOADED') return error;
      return notSent(`${state}${error === null ? '' : `: ${error.message}`}`, { retryAfterMs: afterMs });
  }
}

interface BackoffDeps {
  readonly local: boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly ownership?: Pick<Ownership, 'onLeaseAcquired'> | undefined;
}

/** Counts failures of one server since it was last healthy, and plans the next attempt. */
export class StartBackoff {
  readonly #deps: BackoffDeps;
  /** Consecutive failed starts and early exits. */
  #inRow = 0;
  /** Those of them that the next attempt may fix (S3.8). */
  failures = 0;
  /** Monotonic time of the next attempt; null if none is planned. */
  nextAt: number | null = null;
  #disarm: (() => void) | null = null;

  constructor(deps: BackoffDeps) {
    this.#deps = deps;
  }

  get any(): boolean {
    return this.#inRow > 0;
  }

  /** A remote server with this many failures is not waited for. */
  get unreachable(): boolean {
    return !this.#deps.local && this.failures >= UNREACHABLE_THRESHOLD;
  }

  /** An abort by the gateway says nothing about the server, and the gateway's own limits are not the server's failures. */
  count(error: GatewayError): void {
    const found = failureClass(error);
    if (found === 'abort') return;
    this.#inRow++;
    if (found === 'transient' && error.code !== 'OVERLOADED') this.failures++;
  }

  reset(): void {
    this.#inRow = 0;
    this.failures = 0;
  }

  /** Plans an attempt after the back-off, or when the node gets the lease that it lacked; an already planned attempt stays. */
  plan(attempt: () => void, error: GatewayError): void {
    if (this.#disarm !== null) return;
    const { clock, local, random, ownership } = this.#deps;
    const run = (): void => {
      this.cancel();
      attempt();
    };
    const waits = isMissingLease(error) ? (ownership?.onLeaseAcquired(run) ?? null) : null;
    const delayMs =
      waits === null ? restartDelayMs(Math.max(1, this.#inRow), local, random.unit()) : INITIAL_BACKOFF_MS;
    this.nextAt = clock.now() + delayMs;
    const disarm = clock.after(delayMs, run);
    this.#disarm = () => {
      disarm();
      waits?.();
    };
  }

  cancel(): void {
    this.#disarm?.();
    this.#disarm = null;
    this.nextAt = null;
  }
}

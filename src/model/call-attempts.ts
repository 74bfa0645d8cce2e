import type { CallAttempt } from './call-record.ts';
import type { GatewayError } from './gateway-error.ts';

/** The connection to a server that carried an attempt. */
export interface AttemptCarrier {
  /** Unique among the connections of its process; recordings use the same label. */
  readonly label: string;
  readonly pid: number | null;
}

/** A failed attempt that another one followed or was to follow. `node`: the other node that handled it; null for this node. */
interface FailedAttempt extends Omit<CallAttempt, 'atMs' | 'ms'> {
  /** Monotonic. */
  readonly from: number;
  to: number;
}

/** More than most calls need; older attempts are dropped. */
const MAX_FAILED = 6;

/** The attempts of a call before its last one. A call that needs one attempt has no such object. */
export class CallAttempts {
  readonly failed: FailedAttempt[] = [];
  /** Attempts begun, including the dropped ones. */
  count = 1;
  /** Monotonic start time of the current attempt; null between attempts. */
  since: number | null = null;
  /** The connection of the current attempt; null if it is not known. */
  carrier: AttemptCarrier | null = null;

  /** Records that the current attempt failed and is not the last. `from`: when the first attempt began. */
  add(
    from: number,
    to: number,
    { outcome, message: reason }: Pick<GatewayError, 'outcome' | 'message'>,
    carrier: AttemptCarrier | null,
    node: string | null = null,
  ): void {
    const last = this.failed.at(-1);
    const connection = carrier?.label ?? null;
    this.carrier = null;
    // The search for a node fails repeatedly for the same reason, which counts as one attempt.
    if (connection === null && last?.connection === null && last.node === node && last.reason === reason) {
      last.to = to;
      this.count--;
    } else {
      const began = Math.max(from, this.since ?? 0);
      this.failed.push({ node, connection, pid: carrier?.pid ?? null, from: began, to, outcome, reason });
      if (this.failed.length > MAX_FAILED) this.failed.shift();
    }
    this.since = null;
  }

  /** Adds the attempts that another node made while it had the call, from `from` on; the last of them was answered. */
  addRemote(from: number, node: string, attempts: readonly CallAttempt[]): void {
    const failed = attempts.map(({ atMs, ms, connection, pid, outcome, reason }): FailedAttempt => {
      return { node, connection, pid, from: from + atMs, to: from + atMs + ms, outcome, reason };
    });
    const last = failed.pop();
    if (last === undefined) return;
    this.failed.push(...failed);
    this.failed.splice(0, Math.max(0, this.failed.length - MAX_FAILED));
    this.count += failed.length;
    this.since = last.from;
    this.carrier = last.connection === null ? null : { label: last.connection, pid: last.pid };
  }

  /** The kept attempts as a call record has them, for a call that arrived at `from` and ended with `end` after `ms`. */
  upTo(from: number, ms: number, end: Pick<CallAttempt, 'node' | 'outcome' | 'reason'>): readonly CallAttempt[] {
    const { failed, since, carrier } = this;
    const all = failed.map(
      ({ from: began, to, ...attempt }): CallAttempt => ({ ...attempt, ...span(began, to, from) }),
    );
    if (since === null) return all;
    const [connection, pid] = [carrier?.label ?? null, carrier?.pid ?? null];
    return [...all, { ...span(since, from + ms, from), ...end, connection, pid }];
  }

  /** Records that the next attempt begins. */
  begins(now: number): void {
    this.since = now;
    this.count++;
  }
}

function span(began: number, ended: number, from: number): Pick<CallAttempt, 'atMs' | 'ms'> {
  const start = Math.max(began, from);
  return { atMs: start - from, ms: Math.max(0, ended - start) };
}

import type { CallAttempt } from './call-record.ts';
import type { GatewayError } from './gateway-error.ts';

/** The connection to a server that had an attempt. */
export interface AttemptCarrier {
  /** Unique among the connections of its process; recordings name it so, too. */
  readonly label: string;
  readonly pid: number | null;
}

/** An attempt that another one followed, or was to follow. `node`: the other node that it was given to; null for this one. */
interface FailedAttempt extends Omit<CallAttempt, 'atMs' | 'ms'> {
  /** Monotonic. */
  readonly from: number;
  to: number;
}

/** More than most calls need: of others the oldest are left out. */
const KEPT = 6;

/** What became of a call before its last attempt. A call that needs one attempt has none of these. */
export class CallAttempts {
  readonly failed: FailedAttempt[] = [];
  /** Attempts begun, those that are left out included. */
  count = 1;
  /** Monotonic: when the last one began; null while it is waited for. */
  since: number | null = null;
  /** The connection that has the last one; null where none has it yet, or another node's. */
  carrier: AttemptCarrier | null = null;

  /** The present attempt failed, and is not the last. `from`: when the first one began. */
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
    // A search for a node goes on: the same over and over, which counts once.
    if (connection === null && last?.connection === null && last.node === node && last.reason === reason) {
      last.to = to;
      this.count--;
    } else {
      const began = Math.max(from, this.since ?? 0);
      this.failed.push({ node, connection, pid: carrier?.pid ?? null, from: began, to, outcome, reason });
      if (this.failed.length > KEPT) this.failed.shift();
    }
    this.since = null;
  }

  /** At the other node, which had it from `from` on, the present attempt was several; the last of them was answered. */
  there(from: number, node: string, attempts: readonly CallAttempt[]): void {
    const failed = attempts.map(({ atMs, ms, connection, pid, outcome, reason }): FailedAttempt => {
      return { node, connection, pid, from: from + atMs, to: from + atMs + ms, outcome, reason };
    });
    const last = failed.pop();
    if (last === undefined) return;
    this.failed.push(...failed);
    this.failed.splice(0, Math.max(0, this.failed.length - KEPT));
    this.count += failed.length;
    this.since = last.from;
    this.carrier = last.connection === null ? null : { label: last.connection, pid: last.pid };
  }

  /** All of them as a record has them, of a call that came in at `from` and ended so after `ms`. */
  upTo(from: number, ms: number, end: Pick<CallAttempt, 'node' | 'outcome' | 'reason'>): readonly CallAttempt[] {
    const { failed, since, carrier } = this;
    const all = failed.map(
      ({ from: began, to, ...attempt }): CallAttempt => ({ ...attempt, ...span(began, to, from) }),
    );
    if (since === null) return all;
    const [connection, pid] = [carrier?.label ?? null, carrier?.pid ?? null];
    return [...all, { ...span(since, from + ms, from), ...end, connection, pid }];
  }

  /** The next attempt begins. */
  begins(now: number): void {
    this.since = now;
    this.count++;
  }
}

function span(began: number, ended: number, from: number): Pick<CallAttempt, 'atMs' | 'ms'> {
  const start = Math.max(began, from);
  return { atMs: start - from, ms: Math.max(0, ended - start) };
}

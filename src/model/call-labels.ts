import type { CallAttempt, CallRecord } from './call-record.ts';

/** Shown for a client that sends no name. */
export const UNNAMED_CLIENT = 'unnamed client';

/** The tool with its server, or the method with its name; in quotation marks a name that matched nothing of a server. */
export function callName({ server, name, asked, method }: CallRecord): string {
  if (asked !== undefined) return `${method === 'tools/call' ? '' : `${method} `}"${asked}"`;
  const what = name === null || method === 'tools/call' ? (name ?? method) : `${method} ${name}`;
  return server === null ? what : `${server}.${what}`;
}

/** The outcome in a word or two. */
export function outcomeLabel({ outcome, error }: CallRecord): string {
  if (error === null) return 'ok';
  return outcome === 'RESULT' ? (error === 'tool_error' ? 'tool error' : `error ${error}`) : outcome;
}

export function duration(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** A part of the time of a call, in milliseconds since its start. */
export interface CallSpan {
  readonly label: string;
  readonly from: number;
  readonly to: number;
  /** The attempt that this span covers. */
  readonly attempt?: CallAttempt;
}

const WORTH_SHOWING_MS = 0.05;

/** The time of a call as spans: on both sides of the gateway, and of each attempt. */
export function callSpans(call: CallRecord): readonly CallSpan[] {
  const { ms, waitedMs, tries, attempts = [] } = call;
  const here = call.node === null ? 'gateway' : `node ${call.node}`;
  const server = `${call.server}${call.servedBy === null ? '' : ` (at node ${call.servedBy})`}`;
  const first = Math.max(1, tries - attempts.length + 1);
  const spans: CallSpan[] = [{ label: `${call.client ?? 'client'} → ${here}`, from: 0, to: ms }];
  if (waitedMs !== null) {
    if (waitedMs >= WORTH_SHOWING_MS) spans.push({ label: `${here}: before sending`, from: 0, to: waitedMs });
    spans.push({ label: `${here} → ${server}`, from: waitedMs, to: ms });
  }
  for (const [i, attempt] of attempts.entries()) {
    const { atMs: from, ms: took } = attempt;
    spans.push({ label: `attempt ${first + i}`, from, to: from + took, attempt });
  }
  return spans;
}

/** The node, the connection and the server process that carried an attempt. */
export function attemptCarrier({ node, connection, pid }: CallAttempt): string {
  const words = [
    node === null ? [] : `node ${node}`,
    connection === null ? [] : `connection ${connection}`,
    pid === null ? [] : `process ${pid}`,
  ];
  return words.flat().join(', ');
}

/** How an attempt ended: its outcome, and the reason if it failed. */
export function attemptEnding({ outcome, reason }: CallAttempt): string {
  return reason === null ? outcome : `${outcome}: ${reason}`;
}

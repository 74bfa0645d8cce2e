import type { CallAttempt, CallRecord } from './call-record.ts';

/** What a call was made of: the tool with its server, or the method; in quotation marks what leads to nothing of a server. */
export function callName({ server, name, asked, method }: CallRecord): string {
  if (asked !== undefined) return `${method === 'tools/call' ? '' : `${method} `}"${asked}"`;
  const what = name === null || method === 'tools/call' ? (name ?? method) : `${method} ${name}`;
  return server === null ? what : `${server}.${what}`;
}

/** How it ended, in a word or two. */
export function ending({ outcome, error }: CallRecord): string {
  if (error === null) return 'ok';
  return outcome === 'RESULT' ? (error === 'tool_error' ? 'tool error' : `error ${error}`) : outcome;
}

export function duration(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Who had an attempt: the node, the connection to the server, and its process. */
export function attemptCarrier({ node, connection, pid }: CallAttempt): string {
  const words = [
    node === null ? [] : `node ${node}`,
    connection === null ? [] : `connection ${connection}`,
    pid === null ? [] : `process ${pid}`,
  ];
  return words.flat().join(', ');
}

/** How an attempt ended: the outcome word, and why. */
export function attemptEnding({ outcome, reason }: CallAttempt): string {
  return reason === null ? outcome : `${outcome}: ${reason}`;
}

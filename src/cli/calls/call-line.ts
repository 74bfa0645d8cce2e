import { styleText } from 'node:util';
import type { CallRecord } from '../../model/call-record.ts';

/** What a call was made of: the tool with its server, or the method. */
export function callName({ server, name, method }: CallRecord): string {
  const what = name === null || method === 'tools/call' ? (name ?? method) : `${method} ${name}`;
  return server === null ? what : `${server}.${what}`;
}

/** How it ended, in a word or two. */
export function ending({ outcome, error }: CallRecord): string {
  if (error === null) return 'ok';
  return outcome === 'RESULT' ? (error === 'tool_error' ? 'tool error' : `error ${error}`) : outcome;
}

/** One line for people: time, duration, ending, what was called, and by whom. */
export function callLine(call: CallRecord): string {
  const { time, ms, client, principal, node, servedBy, reason, id } = call;
  const end = ending(call);
  const paint = end === 'ok' ? 'green' : call.outcome === 'RESULT' ? 'yellow' : 'red';
  const where = node === null ? '' : servedBy === null ? ` @${node}` : ` @${node}→${servedBy}`;
  const who = `${client ?? 'unnamed client'} (${principal})${where}`;
  return [
    styleText('gray', time.slice(11, 23)),
    duration(ms).padStart(8),
    styleText(paint, end.padEnd(11)),
    styleText('bold', callName(call)),
    styleText('gray', `${who}  ${id}${reason === null ? '' : `  ${reason}`}`),
  ].join(' ');
}

export function duration(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function bytes(count: number): string {
  return count < 1024
    ? `${count} B`
    : count < 1024 ** 2
      ? `${(count / 1024).toFixed(1)} KiB`
      : `${(count / 1024 ** 2).toFixed(1)} MiB`;
}

import { styleText } from 'node:util';
import type { CallRecord } from '../../model/call-record.ts';
import { callName, duration, ending } from '../../model/call-words.ts';

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

export function bytes(count: number): string {
  return count < 1024
    ? `${count} B`
    : count < 1024 ** 2
      ? `${(count / 1024).toFixed(1)} KiB`
      : `${(count / 1024 ** 2).toFixed(1)} MiB`;
}

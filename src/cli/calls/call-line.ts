import { styleText } from 'node:util';
import { callName, duration, outcomeLabel, UNNAMED_CLIENT } from '../../model/call-labels.ts';
import type { CallRecord } from '../../model/call-record.ts';
import { displayWidth, truncate } from '../screen/display-width.ts';

/** Least columns of a text that are worth showing. */
const LEAST = 8;
const LEAST_NAME = 20;

/**
 * One line: time, duration, outcome, name of the call, caller, id, and reason of a failure. With fewer columns the reason is
 * cut first, then the caller, and so on; the id is shown in full or omitted.
 */
export function callLine(call: CallRecord, columns = Number.POSITIVE_INFINITY): string {
  const { time, ms, client, principal, node, servedBy, reason, id } = call;
  const end = outcomeLabel(call);
  const paint = end === 'ok' ? 'green' : call.outcome === 'RESULT' ? 'yellow' : 'red';
  const where = node === null ? '' : servedBy === null ? ` @${node}` : ` @${node}→${servedBy}`;
  const began = `${duration(ms).padStart(8)} ${styleText(paint, end.padEnd(11))} `;
  let left = columns - displayWidth(began);
  /** The part of the text that fits beside `others` further columns; empty if fewer than `least` columns are left. */
  const part = (said: string, least: number, others = 0): string => {
    const text = said.replaceAll(/\s/g, ' ');
    const shown = left - others >= Math.min(least, displayWidth(text)) ? truncate(text, left - others) : '';
    left -= displayWidth(shown);
    return shown;
  };
  const name = callName(call);
  const nameWidth = Math.min(displayWidth(name), LEAST_NAME);
  const clock = `${time.slice(11, 23)} `;
  const when = part(clock, clock.length, nameWidth);
  const idText = `  ${id}`;
  const number = part(idText, idText.length, nameWidth);
  const called = part(name, 1);
  const who = part(` ${client ?? UNNAMED_CLIENT} (${principal})${where}`, LEAST);
  const why = reason === null ? '' : part(`  ${reason}`, LEAST);
  return `${styleText('gray', when)}${began}${styleText('bold', called)}${styleText('gray', `${who}${number}${why}`)}`;
}

export function bytes(count: number): string {
  return count < 1024
    ? `${count} B`
    : count < 1024 ** 2
      ? `${(count / 1024).toFixed(1)} KiB`
      : `${(count / 1024 ** 2).toFixed(1)} MiB`;
}

import { styleText } from 'node:util';
import { printable } from '../model/printable.ts';

/** One entry of a server's log, as the control API gives it. */
export interface ParsedLogLine {
  readonly time?: string;
  readonly level?: string;
  readonly event?: string;
  readonly server?: string;
  readonly type?: string;
  readonly reason?: unknown;
  readonly [field: string]: unknown;
}

const PAINT: Readonly<Record<string, 'gray' | 'yellow' | 'red'>> = { info: 'gray', warn: 'yellow', error: 'red' };

/** For people: time, server, and what it wrote behind a bar or what happened to it. Control characters are spelled out. */
export function logLine(entry: ParsedLogLine): string {
  if (entry.type === 'gap') return styleText('yellow', `… some lines are missing: ${shown(entry.reason)}`);
  const { time = '', level = 'info', event = '', server = '', ...fields } = entry;
  const head = `${styleText('gray', shown(time).slice(11, 23))} ${shown(server)}`;
  if (event === 'server_stderr') return `${head} | ${shown(fields['line'])}`;
  return `${head} ${styleText(PAINT[level] ?? 'gray', shown(event))} ${said(event, fields)}`.trimEnd();
}

function said(event: string, { before, state, reason, ...rest }: Record<string, unknown>): string {
  if (event === 'server_state') {
    return `${shown(before)} → ${shown(state)}${reason == null ? '' : `: ${shown(reason)}`}`;
  }
  const fields = { ...rest, ...(before == null ? {} : { before }), ...(state == null ? {} : { state }), reason };
  return Object.entries(fields)
    .filter(([, value]) => value != null && value !== '')
    .map(([key, value]) => `${shown(key)}=${shown(value)}`)
    .join(' ');
}

/** On one line. */
function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return printable(text).replaceAll('\n', '\\n').replaceAll('\t', '\\t');
}

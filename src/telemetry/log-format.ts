import { styleText } from 'node:util';
import { printable } from '../model/printable.ts';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export type LogFields = Readonly<Record<string, unknown>>;

export interface LogEntry {
  /** Wall clock, milliseconds. */
  readonly at: number;
  readonly level: LogLevel;
  /** The event as a constant name in snake case: `config_applied`. The fields have everything that varies. */
  readonly event: string;
  readonly fields: LogFields;
}

export type LogFormat = (entry: LogEntry) => string;

/** One JSON object per line: `time`, `level`, `event`, then the fields. */
export const formatJson: LogFormat = ({ at, level, event, fields }) =>
  recordText({ time: new Date(at).toISOString(), level, event, ...fields });

/** JSON without empty members: null, and empty lists. */
export function recordText(record: object): string {
  return JSON.stringify(record, function (this: unknown, key, value) {
    return isNothing(value) && !Array.isArray(this) ? undefined : plain(key, value);
  });
}

function isNothing(value: unknown): boolean {
  return value == null || (Array.isArray(value) && value.length === 0);
}

const PAINT: Record<LogLevel, 'gray' | 'cyan' | 'yellow' | 'red'> = {
  debug: 'gray',
  info: 'cyan',
  warn: 'yellow',
  error: 'red',
};

/**
 * For people at a terminal: time, level, event, `key=value` pairs, and below them the frame of a configuration `problem`.
 * Control characters in values are escaped.
 */
export const formatPretty: LogFormat = (entry) => {
  const time = new Date(entry.at).toISOString().slice(11, 23);
  const { problem, ...others } = entry.fields;
  const fields = Object.entries(others)
    .filter(([, value]) => !isNothing(value))
    .map(
      ([key, value]) =>
        `${key}=${typeof value === 'string' && /^[\w.:/@+-]+$/.test(value) ? value : JSON.stringify(value, plain)}`,
    );
  const line = [
    styleText('gray', time),
    styleText(PAINT[entry.level], entry.level.padEnd(5)),
    entry.event,
    styleText('gray', fields.join(' ')),
  ]
    .join(' ')
    .trimEnd();
  return line + frameBelow(problem);
};

/** Indented, so that no line of it looks like a log record. */
export function frameBelow(problem: unknown): string {
  return typeof problem === 'string' ? `\n${printable(problem).trimEnd().replaceAll(/^/gm, '  ')}` : '';
}

/** JSON.stringify replacer: errors become name, message and cause, and big integers become text. */
export function plain(_key: string, value: unknown): unknown {
  if (value instanceof Error) {
    return { name: value.name, message: value.message, ...(value.cause === undefined ? {} : { cause: value.cause }) };
  }
  return typeof value === 'bigint' ? value.toString() : value;
}

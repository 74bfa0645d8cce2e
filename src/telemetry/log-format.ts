import { styleText } from 'node:util';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export type LogFields = Readonly<Record<string, unknown>>;

export interface LogEntry {
  /** Wall clock, milliseconds. */
  readonly at: number;
  readonly level: LogLevel;
  /** What happened, in constant words, in snake case: `config_applied`. Whatever varies is in the fields. */
  readonly event: string;
  readonly fields: LogFields;
}

export type LogFormat = (entry: LogEntry) => string;

/** One JSON object per line: `time`, `level`, `event`, then the fields. */
export const formatJson: LogFormat = (entry) =>
  JSON.stringify(
    { time: new Date(entry.at).toISOString(), level: entry.level, event: entry.event, ...entry.fields },
    plain,
  );

const PAINT: Record<LogLevel, 'gray' | 'cyan' | 'yellow' | 'red'> = {
  debug: 'gray',
  info: 'cyan',
  warn: 'yellow',
  error: 'red',
};

/** For people on a terminal: time, level, event, `key=value` pairs. Control characters in values are escaped. */
export const formatPretty: LogFormat = (entry) => {
  const time = new Date(entry.at).toISOString().slice(11, 23);
  const fields = Object.entries(entry.fields)
    .filter(([, value]) => value !== undefined)
    .map(
      ([key, value]) =>
        `${key}=${typeof value === 'string' && /^[\w.:/@+-]+$/.test(value) ? value : JSON.stringify(value, plain)}`,
    );
  return [
    styleText('gray', time),
    styleText(PAINT[entry.level], entry.level.padEnd(5)),
    entry.event,
    styleText('gray', fields.join(' ')),
  ]
    .join(' ')
    .trimEnd();
};

/** JSON.stringify replacer: errors become their message and cause, big integers text. */
export function plain(_key: string, value: unknown): unknown {
  if (value instanceof Error) {
    return { name: value.name, message: value.message, ...(value.cause === undefined ? {} : { cause: value.cause }) };
  }
  return typeof value === 'bigint' ? value.toString() : value;
}

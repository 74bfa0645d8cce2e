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

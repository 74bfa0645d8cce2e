import { printable } from '../model/printable.ts';
import { Journal } from './journal.ts';
import { formatJson, type LogEntry, type LogFields } from './log-format.ts';
import type { Logger } from './logger.ts';

const LIMITS = { maxEntries: 1_000, maxBytes: 256 * 1024, maxTotalBytes: 32 * 1024 * 1024 };

/**
 * The log of each server: its standard error, and what the gateway logged about it at `info` or above; and, under the empty
 * name, what the gateway logged about itself. One line of JSON each, as in the gateway's own log: redacted, with control
 * characters escaped.
 */
export class ServerLogs {
  readonly journal: Journal;
  readonly #logger: Logger;
  readonly #stop: () => void;

  constructor(logger: Logger, run: string) {
    this.journal = new Journal(run, LIMITS);
    this.#logger = logger;
    this.#stop = logger.subscribe((entry) => this.#keep(entry));
  }

  close(): void {
    this.#stop();
  }

  #keep(entry: LogEntry): void {
    const { server: named } = entry.fields;
    const server = typeof named === 'string' ? named : '';
    const fields = { server, ...(shown(entry.fields, this.#logger) as LogFields) };
    this.journal.push(server, this.#logger.redact(formatJson({ ...entry, fields })));
  }
}

/** Also escapes characters that reverse or break text, which JSON does not. */
function shown(value: unknown, logger: Logger): unknown {
  if (typeof value === 'string') return printable(logger.redact(value));
  if (value instanceof Error) return { name: value.name, message: printable(logger.redact(value.message)) };
  if (Array.isArray(value)) return value.map((item) => shown(item, logger));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shown(item, logger)]));
}

import { printable } from '../model/printable.ts';
import { Journal } from './journal.ts';
import { formatJson, type LogEntry, type LogFields } from './log-format.ts';
import type { Logger } from './logger.ts';

const LIMITS = { maxEntries: 1_000, maxBytes: 256 * 1024, maxTotalBytes: 32 * 1024 * 1024 };
/** A server that is down fails every call: that is said a few times, and then how often it was left out. */
const FAILED_CALLS_PER_SECOND = 5;

interface FailedCalls {
  second: number;
  count: number;
  leftOut: number;
}

/**
 * The log of each server: what it wrote to its standard error, and what the gateway logged of it, whatever the log level; and,
 * under no name, what the gateway logged of itself. One line of JSON each, as in the gateway's own log: redacted, with control
 * characters spelled out.
 */
export class ServerLogs {
  readonly journal: Journal;
  readonly #failedCalls = new Map<string, FailedCalls>();
  readonly #stop: () => void;

  constructor(logger: Logger, run: string) {
    this.journal = new Journal(run, LIMITS);
    this.#stop = logger.keptBy((entry, scrub) => this.#keep(entry, scrub));
  }

  close(): void {
    this.#stop();
  }

  #keep(entry: LogEntry, scrub: (text: string) => string): void {
    const { server: named } = entry.fields;
    const server = typeof named === 'string' ? named : '';
    if (entry.event === 'call_failed') this.#failedCall(server, entry, scrub);
    else this.#push(server, entry, scrub);
  }

  #failedCall(server: string, entry: LogEntry, scrub: (text: string) => string): void {
    const second = Math.floor(entry.at / 1000);
    const known = this.#failedCalls.get(server) ?? { second, count: 0, leftOut: 0 };
    this.#failedCalls.set(server, known);
    if (known.second !== second) Object.assign(known, { second, count: 0 });
    if (++known.count > FAILED_CALLS_PER_SECOND) {
      known.leftOut++;
      return;
    }
    const fields = known.leftOut === 0 ? entry.fields : { ...entry.fields, leftOut: known.leftOut };
    known.leftOut = 0;
    this.#push(server, { ...entry, fields }, scrub);
  }

  #push(server: string, entry: LogEntry, scrub: (text: string) => string): void {
    const fields = { server, ...(shown(entry.fields, scrub) as LogFields) };
    this.journal.push(server, scrub(formatJson({ ...entry, fields })));
  }
}

/** JSON spells out some control characters by itself, but not those that turn text for the reader. */
function shown(value: unknown, scrub: (text: string) => string): unknown {
  if (typeof value === 'string') return printable(scrub(value));
  if (value instanceof Error) return { name: value.name, message: printable(scrub(value.message)) };
  if (Array.isArray(value)) return value.map((item) => shown(item, scrub));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shown(item, scrub)]));
}

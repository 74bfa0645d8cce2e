import { formatJson, LOG_LEVELS, type LogEntry, type LogFields, type LogFormat, type LogLevel } from './log-format.ts';
import { Scrubber } from './scrubber.ts';

interface LoggerOptions {
  readonly level: LogLevel;
  /** Takes one finished line, newline included. */
  readonly write: (line: string) => void;
  readonly format?: LogFormat;
  readonly now?: () => number;
}

/** Receives every entry at `info` or above, whatever is written, and redacts what it keeps. Must not throw. */
type LogSubscriber = (entry: LogEntry) => void;

/** What a logger and its children share. */
interface LoggerCore {
  level: LogLevel;
  readonly write: (line: string) => void;
  readonly format: LogFormat;
  readonly now: () => number;
  readonly scrubber: Scrubber;
  /** `true`: the subscriber also gets one line per call. */
  readonly subscribers: Map<LogSubscriber, boolean>;
}

/**
 * Structured log. A child shares its parent's output, level and scrubber, and adds fields of its own (`request`, `session`,
 * `server`). All output passes through the scrubber, so a registered secret never appears.
 */
export class Logger {
  readonly #shared: LoggerCore;
  readonly #fields: LogFields;

  constructor(options: LoggerOptions | LoggerCore, fields: LogFields = {}) {
    const own = { scrubber: new Scrubber(), subscribers: new Map<LogSubscriber, boolean>() };
    this.#shared = 'scrubber' in options ? options : { format: formatJson, now: Date.now, ...options, ...own };
    this.#fields = fields;
  }

  /** A logger that writes nothing. */
  static silent(): Logger {
    return new Logger({ level: 'error', write: () => {} });
  }

  child(fields: LogFields): Logger {
    return new Logger(this.#shared, { ...this.#fields, ...fields });
  }

  get level(): LogLevel {
    return this.#shared.level;
  }

  set level(level: LogLevel) {
    this.#shared.level = level;
  }

  writes(level: LogLevel): boolean {
    return LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(this.level);
  }

  addSecret(secret: string): void {
    this.#shared.scrubber.add(secret);
  }

  /** The text with every registered secret masked, for output other than the log. */
  redact(text: string): string {
    return this.#shared.scrubber.scrub(text);
  }

  /** As `redact` for JSON, which stays valid. */
  redactJson(json: string): string {
    return this.#shared.scrubber.scrubJson(json);
  }

  /** Passes the entries of this logger, its parents and children to a subscriber. The returned function ends that. */
  subscribe(subscriber: LogSubscriber, calls = false): () => void {
    const { subscribers } = this.#shared;
    subscribers.set(subscriber, calls);
    return () => void subscribers.delete(subscriber);
  }

  /** Passes an entry to the subscribers without writing it. */
  publish(event: string, fields: LogFields = {}): void {
    if (this.#shared.subscribers.size > 0) this.#notifySubscribers(this.#entry('info', event, fields));
  }

  /** Whether the output or a subscriber takes one line per call. */
  get takesCalls(): boolean {
    return this.writes('info') || this.#shared.subscribers.values().some((calls) => calls);
  }

  /** A line at `info` about a call, for subscribers that asked for calls; others read the call log. */
  call(fields: LogFields): void {
    const { subscribers } = this.#shared;
    const entry = this.#entry('info', 'call', fields);
    for (const [subscriber, calls] of subscribers) if (calls) subscriber(entry);
    if (this.writes('info')) this.#write(entry);
  }

  debug(event: string, fields: LogFields = {}): void {
    this.#log('debug', event, fields);
  }

  info(event: string, fields: LogFields = {}): void {
    this.#log('info', event, fields);
  }

  warn(event: string, fields: LogFields = {}): void {
    this.#log('warn', event, fields);
  }

  error(event: string, fields: LogFields = {}): void {
    this.#log('error', event, fields);
  }

  #log(level: LogLevel, event: string, fields: LogFields): void {
    const { subscribers } = this.#shared;
    const isKept = level !== 'debug' && subscribers.size > 0;
    const isWritten = this.writes(level);
    if (!isKept && !isWritten) return;
    const entry = this.#entry(level, event, fields);
    if (isKept) this.#notifySubscribers(entry);
    if (isWritten) this.#write(entry);
  }

  #write(entry: LogEntry): void {
    const { write, format, scrubber } = this.#shared;
    write(`${scrubber.scrub(format(entry))}\n`);
  }

  #entry(level: LogLevel, event: string, fields: LogFields): LogEntry {
    return { at: this.#shared.now(), level, event, fields: { ...this.#fields, ...fields } };
  }

  #notifySubscribers(entry: LogEntry): void {
    for (const subscriber of this.#shared.subscribers.keys()) subscriber(entry);
  }
}

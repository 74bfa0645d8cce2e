import { formatJson, LOG_LEVELS, type LogEntry, type LogFields, type LogFormat, type LogLevel } from './log-format.ts';
import { Scrubber } from './scrubber.ts';

interface LoggerOptions {
  readonly level: LogLevel;
  /** Takes one finished line, newline included. */
  readonly write: (line: string) => void;
  readonly format?: LogFormat;
  readonly now?: () => number;
}

/** Also hears every entry that is `info` or above, whatever is written. What it keeps it has to scrub. Must not throw. */
type LogKeeper = (entry: LogEntry, scrub: (text: string) => string) => void;

/**
 * Structured log. A child shares its parent's output, level and scrubber and adds fields of its own
 * (`request`, `session`, `server`). What is written went through the scrubber: a registered secret never appears.
 */
export class Logger {
  readonly #core: LoggerCore;
  readonly #fields: LogFields;

  constructor(options: LoggerOptions);
  constructor(core: LoggerCore, fields: LogFields);
  constructor(source: LoggerOptions | LoggerCore, fields: LogFields = {}) {
    this.#core = source instanceof LoggerCore ? source : new LoggerCore(source);
    this.#fields = fields;
  }

  /** A logger that writes nothing. */
  static silent(): Logger {
    return new Logger({ level: 'error', write: () => {} });
  }

  child(fields: LogFields): Logger {
    return new Logger(this.#core, { ...this.#fields, ...fields });
  }

  get level(): LogLevel {
    return this.#core.level;
  }

  set level(level: LogLevel) {
    this.#core.level = level;
  }

  addSecret(secret: string): void {
    this.#core.scrubber.add(secret);
  }

  /** The text with every registered secret masked; for whatever is shown by other ways than the log. */
  redact(text: string): string {
    return this.#core.scrubber.scrub(text);
  }

  /** The same for JSON, which stays valid. */
  redactJson(json: string): string {
    return this.#core.scrubber.scrubJson(json);
  }

  /** Has a keeper hear what is logged, by this logger and its whole family. The returned function ends that. */
  keptBy(keeper: LogKeeper): () => void {
    const { keepers } = this.#core;
    keepers.add(keeper);
    return () => void keepers.delete(keeper);
  }

  /** Tells the keepers and writes nothing. */
  keep(event: string, fields: LogFields = {}): void {
    this.#core.keep('info', event, this.#fields, fields);
  }

  debug(event: string, fields: LogFields = {}): void {
    this.#core.log('debug', event, this.#fields, fields);
  }

  info(event: string, fields: LogFields = {}): void {
    this.#core.log('info', event, this.#fields, fields);
  }

  warn(event: string, fields: LogFields = {}): void {
    this.#core.log('warn', event, this.#fields, fields);
  }

  error(event: string, fields: LogFields = {}): void {
    this.#core.log('error', event, this.#fields, fields);
  }
}

class LoggerCore {
  level: LogLevel;
  readonly scrubber = new Scrubber();
  readonly keepers = new Set<LogKeeper>();
  readonly #write: (line: string) => void;
  readonly #format: LogFormat;
  readonly #now: () => number;

  constructor(options: LoggerOptions) {
    this.level = options.level;
    this.#write = options.write;
    this.#format = options.format ?? formatJson;
    this.#now = options.now ?? Date.now;
  }

  log(level: LogLevel, event: string, base: LogFields, fields: LogFields): void {
    if (level !== 'debug') this.keep(level, event, base, fields);
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(this.level)) return;
    const entry: LogEntry = { at: this.#now(), level, event, fields: { ...base, ...fields } };
    this.#write(`${this.scrubber.scrub(this.#format(entry))}\n`);
  }

  keep(level: LogLevel, event: string, base: LogFields, fields: LogFields): void {
    if (this.keepers.size === 0) return;
    const entry: LogEntry = { at: this.#now(), level, event, fields: { ...base, ...fields } };
    for (const keeper of this.keepers) keeper(entry, (text) => this.scrubber.scrub(text));
  }
}

import { closeSync, existsSync, fstatSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { formatJson, type LogEntry } from '../telemetry/log-format.ts';
import type { Logger } from '../telemetry/logger.ts';

export const LOG_FILE = 'gateway.log';
/** Limit of each of the two files. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Returns the log in a data folder, older file first. */
export function readLog(folder: string): string {
  return [`${LOG_FILE}.1`, LOG_FILE]
    .map((name) => join(folder, name))
    .filter((path) => existsSync(path))
    .map((path) => readFileSync(path, 'utf8'))
    .join('');
}

/**
 * Writes the gateway's log to a file in its data folder: for gateways in the background, and for what preceded their end.
 * Leaves out the standard error of servers. Bounded: a full file replaces the previous one (`gateway.log.1`).
 */
export class LogFile {
  readonly #path: string;
  readonly #logger: Logger;
  readonly #stop: () => void;
  #descriptor: number | null = null;
  #bytes = 0;

  constructor(path: string, logger: Logger) {
    this.#path = path;
    this.#logger = logger;
    this.#stop = logger.subscribe((entry) => this.#keep(entry), true);
  }

  close(): void {
    this.#stop();
    this.#release();
  }

  #keep(entry: LogEntry): void {
    if (entry.event === 'server_stderr') return;
    try {
      const line = Buffer.from(`${this.#logger.redact(formatJson(entry))}\n`);
      // It was removed or moved away.
      if (!existsSync(this.#path)) this.#release();
      else if (this.#bytes + line.length > MAX_BYTES) this.#turn();
      this.#descriptor ??= this.#open();
      writeSync(this.#descriptor, line);
      this.#bytes += line.length;
    } catch {
      // The disk is full, or the folder was removed: that must not fail a call.
    }
  }

  #open(): number {
    const descriptor = openSync(this.#path, 'a', 0o600);
    this.#bytes = fstatSync(descriptor).size;
    return descriptor;
  }

  #turn(): void {
    this.#release();
    renameSync(this.#path, `${this.#path}.1`);
    this.#bytes = 0;
  }

  #release(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }
}

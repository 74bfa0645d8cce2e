import { type LogEntry, plain } from '../../telemetry/log-format.ts';
import { Logger } from '../../telemetry/logger.ts';
import { outsideServers } from '../../upstream/error-boundary.ts';

/** Receives the log, with secrets masked. Must not throw. */
export type LogSink = (entry: LogEntry) => void;

/** Passes the gateway's log to the program; `sink` may be replaced at any time. */
export class LogOutlet {
  readonly logger: Logger;
  sink: LogSink | null;

  constructor(sink: LogSink | null, level: 'debug' | 'info' | 'warn' | 'error') {
    this.sink = sink;
    // Entries become text first, because secrets are masked in text.
    this.logger = new Logger({
      level,
      format: (entry) => JSON.stringify(entry, plain),
      write: (line) => outsideServers(() => this.sink?.(JSON.parse(line) as LogEntry)),
    });
  }
}

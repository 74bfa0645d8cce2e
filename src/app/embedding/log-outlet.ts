import { type LogEntry, plain } from '../../telemetry/log-format.ts';
import { Logger } from '../../telemetry/logger.ts';
import { outsideServers } from '../../upstream/error-boundary.ts';

/** Takes what the gateway logs. Secrets are masked already. Must not throw. */
export type LogSink = (entry: LogEntry) => void;

/** The gateway's log on its way to the program; where it goes can be changed at any time. */
export class LogOutlet {
  readonly logger: Logger;
  sink: LogSink | null;

  constructor(sink: LogSink | null, level: 'debug' | 'info' | 'warn' | 'error') {
    this.sink = sink;
    // As text, because it is the text that secrets are masked in.
    this.logger = new Logger({
      level,
      format: (entry) => JSON.stringify(entry, plain),
      write: (line) => outsideServers(() => this.sink?.(JSON.parse(line) as LogEntry)),
    });
  }
}

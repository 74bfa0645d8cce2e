import { formatJson, formatPretty, type LogLevel } from '../telemetry/log-format.ts';
import { Logger } from '../telemetry/logger.ts';

export { formatPretty, frameBelow, type LogEntry, recordText } from '../telemetry/log-format.ts';

/** Returns the logger of a process: readable lines on a terminal, JSON elsewhere. */
export function processLogger(options: {
  readonly level: LogLevel;
  readonly json: boolean;
  readonly write: (line: string) => void;
}): Logger {
  const pretty = !options.json && process.stderr.isTTY === true;
  return new Logger({ level: options.level, write: options.write, format: pretty ? formatPretty : formatJson });
}

import { formatJson, formatPretty, type LogLevel } from '../telemetry/log-format.ts';
import { Logger } from '../telemetry/logger.ts';

export { formatPretty, frameBelow, type LogEntry, recordText } from '../telemetry/log-format.ts';

/** The log of a process: lines for people on a terminal, JSON anywhere else. */
export function processLogger(options: {
  readonly level: LogLevel;
  readonly json: boolean;
  readonly write: (line: string) => void;
}): Logger {
  const pretty = !options.json && process.stderr.isTTY === true;
  return new Logger({ level: options.level, write: options.write, format: pretty ? formatPretty : formatJson });
}

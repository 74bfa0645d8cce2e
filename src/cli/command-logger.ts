import { processLogger } from '../app/process-logger.ts';
import type { CommandInput } from './command-input.ts';

/** The logger of a command that does the work of a gateway itself: errors only, unless a flag asks for more. */
export function commandLogger({ flags, terminal }: CommandInput) {
  return processLogger({ level: flags.logLevel ?? 'error', json: flags.json === true, write: terminal.err });
}

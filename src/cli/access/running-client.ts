import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT } from '../exit-code.ts';
import { ControlClient } from './control-client.ts';
import { findRunning } from './find-running.ts';

/** The control API of the gateway that runs, for commands that can do nothing without one. */
export async function runningClient(input: CommandInput): Promise<ControlClient> {
  const running = await findRunning(input);
  if (running === null) throw new CommandError(EXIT.unreachable, 'no gateway runs here that could be asked');
  return new ControlClient(running);
}

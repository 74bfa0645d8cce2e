import type { RunningGateway } from '../../app/running.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT } from '../exit-code.ts';
import { ControlClient } from './control-client.ts';
import { findRunning } from './find-running.ts';

/** The gateway that runs, for commands that can do nothing without one. */
export async function needRunning(input: CommandInput): Promise<RunningGateway> {
  const running = await findRunning(input);
  if (running !== null) return running;
  const words =
    'no gateway runs here; name the file or the --data-dir of the one that is meant, or start one with: trunkline';
  throw new CommandError(EXIT.unreachable, words);
}

/** Its control API. */
export async function runningClient(input: CommandInput): Promise<ControlClient> {
  return new ControlClient(await needRunning(input));
}

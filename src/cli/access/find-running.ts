import { resolve } from 'node:path';
import { type RunningGateway, runningGateway } from '../../app/running.ts';
import { dataDirOf } from '../../config/files/data-dir-of.ts';
import { findConfig } from '../../config/files/find-config.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT } from '../exit-code.ts';
import { ControlClient } from './control-client.ts';

/**
 * The gateway that runs for the file that was named, or, where none was, in the data folder of the nearest one or in the
 * usual place; null when there is none. A flag says where it is whatever a file says.
 */
export async function findRunning(input: CommandInput): Promise<RunningGateway | null> {
  const { file, serverCommand, flags, terminal } = input;
  if (serverCommand.length > 0) return null;
  const named = file === undefined ? null : [resolve(terminal.cwd, file)];
  if (flags.dataDir !== undefined) return runningGateway(flags.dataDir, terminal.env, named);
  const nearest = named?.[0] ?? findConfig(terminal.cwd);
  const own = nearest === null ? null : await dataDirOf(nearest, terminal.env);
  const there = own === null ? null : runningGateway(own, terminal.env, named);
  return there ?? runningGateway(undefined, terminal.env, named);
}

/** The gateway that runs, for commands that can do nothing without one. */
export async function needRunning(input: CommandInput): Promise<RunningGateway> {
  const running = await findRunning(input);
  if (running !== null) return running;
  const words =
    'no gateway runs here; name the file or the --data-dir of the one that is meant, or start one with: trunkline';
  throw new CommandError(EXIT.unreachable, words);
}

export async function runningClient(input: CommandInput): Promise<ControlClient> {
  return new ControlClient(await needRunning(input));
}

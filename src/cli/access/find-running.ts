import { dirname, resolve } from 'node:path';
import { gatewayFolder, gatewayIdentity } from '../../app/gateway-folders.ts';
import { type RunningGateway, runningGateway, runningGateways } from '../../app/running.ts';
import { findConfig, foldersUp } from '../../config/files/find-config.ts';
import { dataDirOf } from '../../config/files/read-key.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT, usage } from '../exit-code.ts';
import { ControlClient, type ControlTarget } from './control-client.ts';
import { remoteGateway } from './remote-gateway.ts';

type FoundGateway = RunningGateway & ControlTarget;

/**
 * The running gateway for the named file, else for the nearest file, with any data folder. Without a file: a gateway that was
 * started in this folder or in one above it, else the user's default gateway. Returns null if that gateway does not run, and no
 * other one in its place. `--data-dir` selects the data folder regardless of the file.
 */
export async function findRunning(input: CommandInput): Promise<FoundGateway | null> {
  if (input.serverCommand.length > 0) return null;
  const found = remoteGateway(input) ?? (await runningHere(input));
  return found === null || input.flags.json === true ? found : { ...found, note: input.terminal.err };
}

async function runningHere(input: CommandInput): Promise<RunningGateway | null> {
  const { file, flags, terminal } = input;
  const { cwd, env } = terminal;
  const { place, folder } = await targetGateway(input);
  const there = runningGateway(folder);
  if (flags.dataDir !== undefined) return file === undefined || there?.place === place ? there : null;
  if (place !== null && there?.place === place) return there;
  const all = runningGateways(env);
  if (place !== null) return all.find((one) => one.place === place) ?? null;
  return startedAbove(cwd, all) ?? there;
}

/** The data folder of the gateway that `findRunning` finds, or of the one that would start; the folder may not exist. */
export async function dataFolderOf(input: CommandInput): Promise<string> {
  if (input.flags.gatewayUrl !== undefined)
    throw usage('the data folder of that gateway is on another machine: omit --server');
  return (await findRunning(input))?.dataDir ?? (await targetGateway(input)).folder.path;
}

async function targetGateway({ file, flags, terminal: { cwd, env } }: CommandInput) {
  const configFile = file === undefined ? findConfig(cwd) : resolve(cwd, file);
  const served = { files: configFile === null ? [] : [configFile], cwd, env };
  const dataDir = flags.dataDir ?? (configFile === null ? null : await dataDirOf(configFile, env));
  return { place: gatewayIdentity(served), folder: gatewayFolder(dataDir, served) };
}

/** The running gateway that was started in this folder or in the nearest one above it. */
function startedAbove(cwd: string, all: readonly RunningGateway[]): RunningGateway | null {
  for (const folder of foldersUp(cwd)) {
    const here = all.filter(({ instance: { files, cwd: from } }) =>
      files.length === 0 ? from === folder : files.some((file) => dirname(file) === folder),
    );
    if (here.length > 1) throw usage(`${here.length} gateways run here: ${listed(here)}`);
    if (here[0] !== undefined) return here[0];
  }
  return null;
}

/** The options that select each gateway, for an error that asks the user to choose. */
function listed(all: readonly RunningGateway[]): string {
  const words = ({ instance, dataDir }: RunningGateway): string => {
    const [file] = instance.files;
    return `\n  ${file === undefined ? `--data-dir ${dataDir}` : `--config ${file}`}   (${instance.mcpUrl})`;
  };
  return all.map(words).join('');
}

/** Names the gateway for people, after the words "the gateway". */
export function gatewayName({ instance: { mcpUrl, controlUrl, files, command } }: RunningGateway): string {
  if (mcpUrl === '') return `at ${controlUrl}`;
  return `at ${mcpUrl}, serving ${files.join(', ') || command?.join(' ') || 'what was added at run time'}`;
}

/** The same facts for scripts. */
export function gatewayFacts({ instance, dataDir }: RunningGateway): object {
  const { mcpUrl, controlUrl, files, command = null, pid, version, startedAt } = instance;
  return { mcpUrl, controlUrl, files, command, dataDir, pid, version, startedAt };
}

/** The running gateway; throws if there is none. */
export async function needRunning(input: CommandInput): Promise<FoundGateway> {
  const running = await findRunning(input);
  if (running !== null) return running;
  throw new CommandError(
    EXIT.unreachable,
    `${notRunning(input)}; start it with: trunkline${othersRunning(input)}`.trimEnd(),
  );
}

/** Says which gateway does not run. */
export function notRunning({ file, flags, terminal: { cwd } }: CommandInput): string {
  const target = file === undefined ? (flags.dataDir ?? findConfig(cwd)) : resolve(cwd, file);
  return `no gateway runs ${target === null ? 'here' : `for ${target}`}`;
}

/** Lists the other running gateways; empty if there are none. */
export function othersRunning({ terminal: { env } }: CommandInput): string {
  const all = runningGateways(env);
  return all.length === 0 ? '' : `\nthese run:${listed(all)}\n`;
}

export async function runningClient(input: CommandInput): Promise<ControlClient> {
  return new ControlClient(await needRunning(input));
}

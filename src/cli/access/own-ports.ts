import {
  FIRST_PORTS,
  type GatewayFolder,
  gatewayFolder,
  knownFolders,
  portsOf,
  rememberPorts,
  type UsualPorts,
  usualPorts,
} from '../../app/gateway-folders.ts';
import { dataDirOf } from '../../config/files/named-in.ts';
import type { LoadOptions } from '../../config/load-config.ts';
import { bindError } from '../../http/listener/listen-error.ts';
import type { CommandInput } from '../command-input.ts';

/** The data folder that the gateway of these options would have. */
export async function folderOfLoad({ flags }: CommandInput, load: LoadOptions): Promise<GatewayFolder> {
  const [file] = load.files ?? load.serves ?? [];
  return gatewayFolder(flags.dataDir ?? (file === undefined ? null : await dataDirOf(file, load.env)), load);
}

/** The same options with the ports that this gateway has where neither flags nor files name one. */
export async function withUsualPorts(input: CommandInput, load: LoadOptions): Promise<LoadOptions> {
  const { host = '127.0.0.1', port, controlPort } = input.flags;
  if (port !== undefined && controlPort !== undefined) return load;
  const isFree = async (ports: UsualPorts): Promise<boolean> =>
    (port !== undefined || (await bindError(host, ports.port)) === null) &&
    (controlPort !== undefined || (await bindError('127.0.0.1', ports.controlPort)) === null);
  const usual = await usualPorts(await folderOfLoad(input, load), load.env, isFree);
  return { ...load, overrides: { ...load.overrides, usual } };
}

/**
 * Keeps the ports for the next start, for clients know them. What there is to say where they are others than the first gateway
 * of a user has, or than this one had.
 */
export function keptPorts(
  { overrides, env }: LoadOptions,
  folder: GatewayFolder | null,
  mcpUrl: string,
): string | null {
  const port = Number(new URL(mcpUrl).port);
  const usual = overrides?.usual;
  if (folder === null || usual === undefined || usual.port !== port || overrides?.port !== undefined) return null;
  const had = portsOf(folder, env);
  rememberPorts(folder, usual);
  const before = (had ?? FIRST_PORTS).port;
  if (before === port) return null;
  const holder = knownFolders(env).find((other) => other.path !== folder.path && portsOf(other, env)?.port === before);
  const place = holder === undefined ? 'another program' : `another gateway (${holder.path})`;
  const text = `Port ${before} belongs to ${place}; this gateway has port ${port}`;
  return had === null ? `${text} from now on.` : `${text} until its next start: linked clients do not find it there.`;
}

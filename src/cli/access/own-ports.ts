import {
  type DataFolder,
  FIRST_PORTS,
  gatewayFolder,
  knownFolders,
  portsOf,
  rememberPorts,
  type UsualPorts,
  usualPorts,
} from '../../app/gateway-folders.ts';
import { dataDirOf } from '../../config/files/read-key.ts';
import type { LoadOptions } from '../../config/load-config.ts';
import { bindError } from '../../http/listener/listen-error.ts';
import type { CommandInput } from '../command-input.ts';

/** The data folder of a gateway with these options. */
export async function folderOfLoad({ flags }: CommandInput, load: LoadOptions): Promise<DataFolder> {
  const [file] = load.files ?? load.serves ?? [];
  return gatewayFolder(flags.dataDir ?? (file === undefined ? null : await dataDirOf(file, load.env)), load);
}

/** Another port may be free. Any other error, such as an unknown host, is the same at each port; the listener reports it. */
const TAKEN: ReadonlySet<string | undefined> = new Set(['EADDRINUSE', 'EACCES']);

/** The same options, with this gateway's usual ports for those that neither flags nor files name. */
export async function withUsualPorts(input: CommandInput, load: LoadOptions): Promise<LoadOptions> {
  const { host = '127.0.0.1', port, controlPort } = input.flags;
  if (port !== undefined && controlPort !== undefined) return load;
  const isTaken = async (at: string, one: number): Promise<boolean> => TAKEN.has((await bindError(at, one))?.code);
  const isFree = async (ports: UsualPorts): Promise<boolean> =>
    (port !== undefined || !(await isTaken(host, ports.port))) &&
    (controlPort !== undefined || !(await isTaken('127.0.0.1', ports.controlPort)));
  const usual = await usualPorts(await folderOfLoad(input, load), load.env, isFree);
  return { ...load, overrides: { ...load.overrides, usual } };
}

/**
 * Stores the ports for the next start, since linked clients know them. Returns a warning if the port differs from the one that
 * this gateway had, or, at its first start, from the default; otherwise null.
 */
export function keptPorts({ overrides, env }: LoadOptions, folder: DataFolder | null, mcpUrl: string): string | null {
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

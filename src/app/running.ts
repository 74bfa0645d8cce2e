import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { SERVERS } from '../registry/stored-definitions.ts';
import { DataFolder, defaultDataDir, type Instance } from '../store/data-folder.ts';
import { hasRecords } from '../store/run-time-store/run-time-store-file.ts';

export { defaultDataDir } from '../store/data-folder.ts';

/** A gateway that runs on this machine, and how to talk to it. */
export interface RunningGateway {
  readonly instance: Instance;
  readonly token: string;
  /** Proves the right `servers:exec`; null where the folder has none yet. */
  readonly execToken: string | null;
}

/** The gateway that has the data folder; null when none runs there, or none for exactly these files. Touches nothing. */
export function runningGateway(
  dataDir: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
  files: readonly string[] | null,
): RunningGateway | null {
  const folder = new DataFolder(dataDir === undefined ? defaultDataDir(env) : resolve(dataDir));
  const instance = folder.instance();
  if (instance === null) return null;
  if (files !== null && !isDeepStrictEqual(instance.files.toSorted(), files.toSorted())) return null;
  try {
    const exec = folder.file('exec.token');
    const execToken = existsSync(exec) ? readFileSync(exec, 'utf8').trim() : null;
    return { instance, token: readFileSync(folder.file('control.token'), 'utf8').trim(), execToken };
  } catch {
    return null;
  }
}

/** Whether something was added at run time to a gateway of this folder, so that it may start without a file. */
export function hasStoredServers(
  dataDir: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  const folder = new DataFolder(dataDir === undefined ? defaultDataDir(env) : resolve(dataDir));
  return hasRecords(folder.file('truth.db'), SERVERS);
}

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { DataFolder, defaultDataDir, type Instance } from '../store/data-folder.ts';

/** A gateway that runs on this machine, and how to talk to it. */
export interface RunningGateway {
  readonly instance: Instance;
  readonly token: string;
}

/** The gateway that has the data folder; null when none runs there. Touches nothing. */
export function runningGateway(
  dataDir: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): RunningGateway | null {
  const folder = new DataFolder(dataDir === undefined ? defaultDataDir(env) : resolve(dataDir));
  const instance = folder.instance();
  if (instance === null) return null;
  try {
    return { instance, token: readFileSync(folder.file('control.token'), 'utf8').trim() };
  } catch {
    return null;
  }
}

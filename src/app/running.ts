import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { DataFolder, defaultDataDir, type Instance } from '../store/data-folder.ts';

/** A gateway that runs on this machine, and how to talk to it. */
export interface RunningGateway {
  readonly instance: Instance;
  readonly token: string;
}

/** The gateway that has the data folder; null when none runs there, or none for exactly these files. Touches nothing. */
export function runningGateway(
  dataDir: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
  files: readonly string[] | null,
): RunningGateway | null {
  const folder = new DataFolder(dataDir === undefined ? defaultDataDir(env) : resolve(dataDir));
  const instance = folder.instance();
  if (instance === null || (files !== null && !sameFiles(instance.files, files))) return null;
  try {
    return { instance, token: readFileSync(folder.file('control.token'), 'utf8').trim() };
  } catch {
    return null;
  }
}

function sameFiles(some: readonly string[], others: readonly string[]): boolean {
  return some.toSorted().join('\n') === others.toSorted().join('\n');
}

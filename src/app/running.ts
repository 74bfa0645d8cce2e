import { existsSync, readFileSync } from 'node:fs';
import { SERVERS } from '../registry/stored-definitions.ts';
import type { DataFolder, Instance } from '../store/data-folder.ts';
import { hasRecords } from '../store/run-time-store/run-time-store-file.ts';
import { type GatewaySelector, gatewayFolder, gatewayIdentity, knownFolders } from './gateway-folders.ts';

export { defaultDataDir } from '../store/data-folder.ts';

/** A gateway that runs on this machine, and how to reach it. */
export interface RunningGateway {
  readonly instance: Instance;
  readonly dataDir: string;
  /** The result of `gatewayIdentity`. */
  readonly place: string | null;
  readonly token: string;
  /** Grants the right `servers:exec`; null if the folder has none yet. */
  readonly execToken: string | null;
}

/** Returns the gateway that holds the data folder; null if none runs there. Changes nothing. */
export function runningGateway(folder: DataFolder): RunningGateway | null {
  const instance = folder.instance();
  if (instance === null) return null;
  try {
    const exec = folder.file('exec.token');
    const execToken = existsSync(exec) ? readFileSync(exec, 'utf8').trim() : null;
    const token = readFileSync(folder.file('control.token'), 'utf8').trim();
    return { instance, dataDir: folder.path, place: gatewayIdentity({ cwd: '/', ...instance }), token, execToken };
  } catch {
    return null;
  }
}

/** Returns the running gateways of this user, the default one first. */
export function runningGateways(env: GatewaySelector['env']): readonly RunningGateway[] {
  return knownFolders(env).flatMap((folder) => runningGateway(folder) ?? []);
}

/** Whether servers were added at run time to the gateway without a file, so that it may start. */
export function hasStoredServers(dataDir: string | undefined, served: Pick<GatewaySelector, 'cwd' | 'env'>): boolean {
  return hasRecords(gatewayFolder(dataDir, served).file('truth.db'), SERVERS);
}

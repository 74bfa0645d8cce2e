import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { loadConfig } from '../config/load-config.ts';
import { bindProblem } from '../http/listener/bind-problem.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { DataFolder, defaultDataDir } from '../store/data-folder.ts';
import { App } from './app.ts';
import type { AppOptions } from './app-options.ts';
import type { ClusterConnection } from './cluster/cluster-connection.ts';
import { openCluster } from './cluster/open-cluster.ts';
import type { OpenProblem } from './open-problem.ts';
import { buildRooms } from './rooms.ts';
import { truthProblem } from './truth/truth-problem.ts';

export type OpenResult =
  | { readonly ok: true; readonly app: App }
  | { readonly ok: false; readonly problem: OpenProblem };

/** Reads the configuration, takes the data folder and builds the gateway. Starts nothing and opens no port. */
export async function openApp(options: AppOptions): Promise<OpenResult> {
  const loaded = await loadConfig(options.load);
  for (const secret of loaded.secrets) options.logger.addSecret(secret);
  if (!loaded.ok) return { ok: false, problem: { kind: 'config', problems: loaded.problems } };
  const { state } = loaded;
  const message = bindProblem(state);
  if (message !== null) return { ok: false, problem: { kind: 'bind', message } };

  const folder = takeFolder(options, state);
  if (folder !== null && !folder.held) {
    return { ok: false, problem: { kind: 'held', dataDir: folder.path, holder: folder.instance() } };
  }
  let connection: ClusterConnection | null = null;
  try {
    connection = await clusterOf(options, state);
    return { ok: true, app: new App(await buildRooms(options, loaded, folder, connection)) };
  } catch (error) {
    folder?.release();
    // An open connection would keep a process that says why it does not start.
    await connection?.close();
    const problem = truthProblem(error, options, state);
    if (problem === null) throw error;
    return { ok: false, problem };
  }
}

/** One-off commands look at a configuration; they do not become nodes. */
async function clusterOf(options: AppOptions, { cluster }: DesiredState): Promise<ClusterConnection | null> {
  if (options.cluster !== undefined) return options.cluster;
  const joins = keepsState(options) || options.joins === true;
  return cluster === null || !joins ? null : openCluster(cluster, options.logger);
}

function keepsState({ state }: AppOptions): boolean {
  return state === 'data' || state === 'instance';
}

function takeFolder(options: AppOptions, state: DesiredState): DataFolder | null {
  if (!keepsState(options)) return null;
  const dataDir = state.dataDir ?? defaultDataDir(options.load.env);
  if (options.state === 'data') {
    const folder = new DataFolder(dataDir);
    folder.acquire();
    return folder;
  }
  const name = createHash('sha256')
    .update(state.files.join('\n') || JSON.stringify(options.load.argvCommand))
    .digest('hex')
    .slice(0, 16);
  const folder = new DataFolder(join(dataDir, 'instances', name));
  // A second one for the same files, started by another client, does without remembered state.
  return folder.acquire() ? folder : null;
}

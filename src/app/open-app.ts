import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { StoredSecrets } from '../config/document/expand.ts';
import { type ConfigResult, type LoadOptions, loadConfig, type SecretStoreSettings } from '../config/load-config.ts';
import { PROBLEMS } from '../config/problem/problem-catalogue.ts';
import { bindProblem } from '../http/listener/listen-error.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { DataFolder, FolderUnusable } from '../store/data-folder.ts';
import { App } from './app.ts';
import type { AppOptions, OpenProblem } from './app-options.ts';
import type { ClusterConnection } from './cluster/cluster-connection.ts';
import { openCluster } from './cluster/open-cluster.ts';
import { buildComponents } from './components.ts';
import { gatewayFolder } from './gateway-folders.ts';
import { runTimeStoreProblem } from './run-time-store/open-run-time-store.ts';
import { withStoredSecrets } from './run-time-store/stored-secrets.ts';

export type OpenResult =
  | {
      readonly ok: true;
      readonly app: App;
      /** Why the data folder is unusable, and what is lost without it; else null. */
      readonly notPersistedReason: string | null;
    }
  | { readonly ok: false; readonly problem: OpenProblem };

/** Reads the configuration, acquires the data folder and builds the gateway. Starts no server and opens no port. */
export async function openApp(options: AppOptions): Promise<OpenResult> {
  const loaded = await readConfig(options);
  if ('problem' in loaded) return { ok: false, problem: loaded.problem };
  for (const secret of loaded.secrets) options.logger.addSecret(secret);
  if (!loaded.ok) return { ok: false, problem: { kind: 'config', problems: loaded.problems } };
  const { state } = loaded;
  const message = bindProblem(state);
  if (message !== null) return { ok: false, problem: { kind: 'bind', message } };

  const taken = takeFolder(options, state);
  if (!taken.ok) return taken;
  const { folder, notPersistedReason } = taken;
  const kept = notPersistedReason === null ? options : ({ ...options, state: 'none', joins: true } as const);
  if (notPersistedReason !== null) options.logger.warn('state_not_kept', { reason: notPersistedReason });
  let connection: ClusterConnection | null = null;
  const opened: { close(): unknown }[] = [];
  // An open connection would keep the process alive after it has reported why it does not start.
  const leave = async (): Promise<void> => {
    await Promise.allSettled(opened.toReversed().map(async (part) => part.close()));
    folder?.release();
    await connection?.close();
  };
  try {
    connection = await clusterOf(kept, state);
    const foreign = connection === null ? null : await secretProblem(connection, state);
    if (foreign !== null) {
      await leave();
      return { ok: false, problem: foreign };
    }
    const app = new App(await buildComponents(kept, loaded, folder, connection, opened));
    // Another process may have changed the secrets since the files were read.
    const late = loaded.used !== null && !isDeepStrictEqual(loaded.used, app.components.secrets.values);
    if (late) await app.reload();
    return { ok: true, app, notPersistedReason };
  } catch (error) {
    await leave();
    const problem = folderProblem(error) ?? runTimeStoreProblem(error, kept, state);
    if (problem === null) throw error;
    return { ok: false, problem };
  }
}

/** Opens the run-time store only if the files refer to its secrets. `used`: all its secrets; null without such a reference. */
export async function readConfig(
  options: Pick<AppOptions, 'state' | 'load' | 'joins' | 'cluster' | 'logger'>,
): Promise<(ConfigResult & { readonly used: StoredSecrets | null }) | { readonly problem: OpenProblem }> {
  const load = withStoredSecrets(options, options.logger);
  let place: SecretStoreSettings = { dataDir: null, cluster: null };
  let used: StoredSecrets | null = null;
  const secrets: LoadOptions['secrets'] = async (found) => {
    place = found;
    used = await load.secrets!(found);
    return used;
  };
  try {
    return { ...(await loadConfig({ ...load, secrets })), used };
  } catch (error) {
    const problem = folderProblem(error) ?? runTimeStoreProblem(error, options, place);
    if (problem === null) throw error;
    return { problem };
  }
}

/** Returns the problem of an unusable data folder; null for any other error. */
export function folderProblem(error: unknown): OpenProblem | null {
  return error instanceof FolderUnusable ? { kind: 'folder', message: error.message, remedy: error.remedy } : null;
}

/** One-off commands only read a configuration; they do not become nodes. */
async function clusterOf(options: AppOptions, { cluster }: DesiredState): Promise<ClusterConnection | null> {
  if (options.cluster !== undefined) return options.cluster;
  const joins = keepsState(options) || options.joins === true;
  return cluster === null || !joins ? null : openCluster(cluster, options.logger);
}

/** Returns the problem if the cluster has another secret: the node would report ready, and a share of all requests would fail. */
async function secretProblem(
  { bus, identity }: ClusterConnection,
  { files }: DesiredState,
): Promise<OpenProblem | null> {
  if (bus.status.state === 'connected') await identity.confirm().catch(() => {});
  if (identity.refused === null) return null;
  const code = 'TL1705';
  const file = files[0] ?? '<cluster>';
  const problem = {
    code,
    file,
    line: 0,
    column: 0,
    frame: '',
    message: identity.refused,
    fix: PROBLEMS[code].fix,
  } as const;
  return { kind: 'config', problems: [problem] };
}

function keepsState({ state }: AppOptions): boolean {
  return state === 'data' || state === 'instance';
}

type Taken =
  | { readonly ok: true; readonly folder: DataFolder | null; readonly notPersistedReason: string | null }
  | { readonly ok: false; readonly problem: OpenProblem };

/** A named folder must be usable; the default one may be unusable while it holds no state (decision 053). */
function takeFolder(options: AppOptions, state: DesiredState): Taken {
  if (!keepsState(options)) return { ok: true, folder: null, notPersistedReason: null };
  const baseFolder = gatewayFolder(state.dataDir, options.load);
  try {
    const folder = options.state === 'data' ? baseFolder : instanceFolder(baseFolder, options, state);
    if (folder.acquire()) return { ok: true, folder, notPersistedReason: null };
    // A second gateway for the same files, started by another client, keeps no state.
    if (options.state === 'instance') return { ok: true, folder: null, notPersistedReason: null };
    return { ok: false, problem: { kind: 'held', dataDir: folder.path, holder: folder.instance() } };
  } catch (error) {
    const problem = folderProblem(error);
    if (!(error instanceof FolderUnusable) || problem === null) throw error;
    if (state.dataDir !== null || error.untrusted || baseFolder.mayHoldState) return { ok: false, problem };
    return { ok: true, folder: null, notPersistedReason: `${error.message}; ${FORGETS}` };
  }
}

const FORGETS =
  'so this gateway keeps everything in memory: sessions, approved tools and servers added at run time are lost when it stops, and commands such as `trunkline status` do not find it; to keep them, name a folder with --data-dir';

/** Checks the parent folder too, because the run-time store is there. */
function instanceFolder(baseFolder: DataFolder, { load }: AppOptions, { files }: DesiredState): DataFolder {
  baseFolder.prepare();
  const name = createHash('sha256')
    .update(files.join('\n') || JSON.stringify(load.argvCommand))
    .digest('hex')
    .slice(0, 16);
  return new DataFolder(baseFolder.file(join('instances', name)));
}

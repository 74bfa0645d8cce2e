import { type LoadOptions, loadConfig, type SecretStoreSettings } from '../config/load-config.ts';
import { Secrets } from '../credentials/secrets.ts';
import { RecordSealing } from '../gateway/sealer.ts';
import { systemClock } from '../model/clock.ts';
import type { SecretChanges } from '../model/credential-ports.ts';
import { systemRandom } from '../model/random.ts';
import { Registry } from '../registry/registry.ts';
import { RunTimeServers } from '../registry/run-time-servers.ts';
import { StoredServers } from '../registry/stored-definitions.ts';
import type { RunTimeStore } from '../store/run-time-store/run-time-store.ts';
import { type Restored, restoreStore } from '../store/run-time-store/run-time-store-file.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { OpenProblem } from './app-options.ts';
import { gatewayFolder } from './gateway-folders.ts';
import { folderProblem, readConfig } from './open-app.ts';
import { secretChanges } from './plane.ts';
import { openRunTimeStore, runTimeStoreProblem } from './run-time-store/open-run-time-store.ts';
import { credentialKeys, KeyRotation } from './run-time-store/stored-secrets.ts';

/** Why a change was refused; for the commands. */
export { RunTimeProblem } from '../registry/run-time-problem.ts';

/** The run-time store of a gateway that does not run; changes apply at its next start. */
export interface StoppedGateway {
  readonly runTime: RunTimeServers;
  /** Returns the definitions of all its servers as JSON text without secrets. */
  definitions(): string;
  close(): Promise<void>;
}

export type StoppedResult =
  | { readonly ok: true; readonly gateway: StoppedGateway }
  | { readonly ok: false; readonly problem: OpenProblem };

/** Holds the data folder, so that no gateway starts meanwhile. Starts no server. */
export async function openStopped(load: LoadOptions, logger: Logger): Promise<StoppedResult> {
  const taken = await loadAndTake(load, logger);
  if (!taken.ok) return taken;
  const { folder, state } = taken;
  const options = { state: 'data', load } as const;
  let runTimeStore: RunTimeStore | null = null;
  try {
    const opened = openRunTimeStore(options, state, systemClock, logger);
    ({ runTimeStore } = opened);
    const { cwd, env } = load;
    const desired = new Registry(state);
    const stored = new StoredServers(runTimeStore);
    const { refusal } = opened;
    const sealing = new RecordSealing(credentialKeys(options, state, null, systemRandom), systemRandom);
    const secrets = new Secrets({ records: runTimeStore, sealing, clock: systemClock, logger });
    await secrets.refresh();
    const sources = { env, secrets: secrets.values, logger };
    const runTime = new RunTimeServers({ ...sources, stored, clock: systemClock, folder: cwd, refusal, desired });
    await runTime.refresh();
    desired.begin();
    const close = async (): Promise<void> => {
      await opened.runTimeStore.close();
      folder.release();
    };
    const definitions = (): string => JSON.stringify([...desired.state.servers.values()]);
    return { ok: true, gateway: { runTime, definitions, close } };
  } catch (error) {
    await runTimeStore?.close();
    folder.release();
    const problem = folderProblem(error) ?? runTimeStoreProblem(error, options, state);
    if (problem === null) throw error;
    return { ok: false, problem };
  }
}

export type RestoreResult =
  | { readonly ok: true; readonly restored: Restored; readonly file: string }
  | { readonly ok: false; readonly problem: OpenProblem };

/** Replaces the run-time store with its last good snapshot, or with an empty one (F35). */
export async function restoreStopped(load: LoadOptions, how: 'snapshot' | 'empty'): Promise<RestoreResult> {
  const found = await storePlace(load);
  if ('problem' in found) return { ok: false, problem: found.problem };
  const taken = takeFolder(found, load);
  if (!taken.ok) return taken;
  const file = taken.folder.file('truth.db');
  try {
    return { ok: true, restored: restoreStore(file, how, systemClock.wall()), file };
  } catch (error) {
    const problem = runTimeStoreProblem(error, { state: 'data', load }, found);
    if (problem === null) throw error;
    return { ok: false, problem };
  } finally {
    taken.folder.release();
  }
}

/** The secrets and keys of a gateway that does not run; in a cluster with a database, those of all nodes. */
export interface StoppedSecrets {
  readonly changes: SecretChanges;
  close(): Promise<void>;
}

export type StoppedSecretsResult =
  | { readonly ok: true; readonly secrets: StoppedSecrets }
  | { readonly ok: false; readonly problem: OpenProblem };

/** Works also if the configuration is refused because a secret is missing. */
export async function openStoppedSecrets(load: LoadOptions, logger: Logger): Promise<StoppedSecretsResult> {
  const place = await storePlace(load);
  if ('problem' in place) return { ok: false, problem: place.problem };
  const taken = takeFolder(place, load);
  if (!taken.ok) return taken;
  const { folder } = taken;
  const options = { state: 'data', load } as const;
  let records: RunTimeStore | null = null;
  try {
    records = openRunTimeStore(options, { ...place, servers: new Map() }, systemClock, logger).runTimeStore;
    const store = records;
    const source = credentialKeys(options, place, null, systemRandom);
    const sealing = new RecordSealing(source, systemRandom);
    const kept = { records, sealing, clock: systemClock, logger };
    const keyRotation = new KeyRotation({ ...kept, source });
    await keyRotation.settle();
    const changes = secretChanges({ secrets: new Secrets(kept), keyRotation }, async () => {});
    const close = async (): Promise<void> => {
      await store.close();
      folder.release();
    };
    return { ok: true, secrets: { changes, close } };
  } catch (error) {
    await records?.close();
    folder.release();
    const problem = folderProblem(error) ?? runTimeStoreProblem(error, options, place);
    if (problem === null) throw error;
    return { ok: false, problem };
  }
}

/** Returns where the store is, without reading its secrets. */
async function storePlace(load: LoadOptions): Promise<SecretStoreSettings | { readonly problem: OpenProblem }> {
  const places: SecretStoreSettings[] = [];
  const secrets: LoadOptions['secrets'] = async (place) => {
    places.push(place);
    return new Map();
  };
  const loaded = await loadConfig({ ...load, secrets });
  const [place = loaded.ok ? loaded.state : null] = places;
  return place ?? { problem: { kind: 'config', problems: loaded.ok ? [] : loaded.problems } };
}

async function loadAndTake(load: LoadOptions, logger: Logger) {
  const loaded = await readConfig({ state: 'data', load, logger });
  if ('problem' in loaded) return { ok: false, problem: loaded.problem } as const;
  if (!loaded.ok) return { ok: false, problem: { kind: 'config', problems: loaded.problems } } as const;
  const taken = takeFolder(loaded.state, load);
  return taken.ok ? { ...taken, state: loaded.state } : taken;
}

function takeFolder({ dataDir }: Pick<SecretStoreSettings, 'dataDir'>, load: LoadOptions) {
  const folder = gatewayFolder(dataDir, load);
  try {
    if (folder.acquire()) return { ok: true, folder } as const;
  } catch (error) {
    const problem = folderProblem(error);
    if (problem === null) throw error;
    return { ok: false, problem } as const;
  }
  return { ok: false, problem: { kind: 'held', dataDir: folder.path, holder: folder.instance() } } as const;
}

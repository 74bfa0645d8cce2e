import { type LoadOptions, loadConfig } from '../config/load-config.ts';
import { systemClock } from '../model/clock.ts';
import { Registry } from '../registry/registry.ts';
import { RunTimeServers } from '../registry/run-time-servers.ts';
import { StoredServers } from '../registry/stored-definitions.ts';
import { DataFolder, defaultDataDir } from '../store/data-folder.ts';
import type { RunTimeStore } from '../store/run-time-store/run-time-store.ts';
import { type Restored, restoreStore } from '../store/run-time-store/run-time-store-file.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { OpenProblem } from './app-options.ts';
import { folderProblem } from './open-app.ts';
import { openRunTimeStore, runTimeStoreProblem } from './run-time-store/open-run-time-store.ts';

/** Why a change was refused, for the commands. */
export { RunTimeProblem } from '../registry/run-time-problem.ts';

/** What was decided at run time, of a gateway that does not run: it will find it so at its next start. */
export interface StoppedGateway {
  readonly runTime: RunTimeServers;
  close(): Promise<void>;
}

export type StoppedResult =
  | { readonly ok: true; readonly gateway: StoppedGateway }
  | { readonly ok: false; readonly problem: OpenProblem };

/** Takes the data folder as a gateway would, so that none starts meanwhile. Starts nothing. */
export async function openStopped(load: LoadOptions, logger: Logger): Promise<StoppedResult> {
  const taken = await takeFolder(load);
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
    const runTime = new RunTimeServers({ stored, clock: systemClock, logger, env, folder: cwd, refusal, desired });
    await runTime.refresh();
    desired.begin();
    const close = async (): Promise<void> => {
      await opened.runTimeStore.close();
      folder.release();
    };
    return { ok: true, gateway: { runTime, close } };
  } catch (error) {
    await runTimeStore?.close();
    folder.release();
    const problem = runTimeStoreProblem(error, options, state);
    if (problem === null) throw error;
    return { ok: false, problem };
  }
}

export type RestoreResult =
  | { readonly ok: true; readonly restored: Restored; readonly file: string }
  | { readonly ok: false; readonly problem: OpenProblem };

/** Puts the last good snapshot of what was decided at run time in its place, or nothing (F35). */
export async function restoreStopped(load: LoadOptions, how: 'snapshot' | 'empty'): Promise<RestoreResult> {
  const taken = await takeFolder(load);
  if (!taken.ok) return taken;
  const file = taken.folder.file('truth.db');
  try {
    return { ok: true, restored: restoreStore(file, how, systemClock.wall()), file };
  } catch (error) {
    const problem = runTimeStoreProblem(error, { state: 'data', load }, taken.state);
    if (problem === null) throw error;
    return { ok: false, problem };
  } finally {
    taken.folder.release();
  }
}

async function takeFolder(load: LoadOptions) {
  const loaded = await loadConfig(load);
  if (!loaded.ok) return { ok: false, problem: { kind: 'config', problems: loaded.problems } } as const;
  const folder = new DataFolder(loaded.state.dataDir ?? defaultDataDir(load.env));
  try {
    if (folder.acquire()) return { ok: true, folder, state: loaded.state } as const;
  } catch (error) {
    const problem = folderProblem(error);
    if (problem === null) throw error;
    return { ok: false, problem } as const;
  }
  return { ok: false, problem: { kind: 'held', dataDir: folder.path, holder: folder.instance() } } as const;
}

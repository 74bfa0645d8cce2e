import type { DesiredState } from '../../model/desired-state.ts';
import { DataFolder, defaultDataDir } from '../../store/data-folder.ts';
import type { AppOptions } from '../app-options.ts';

/**
 * Where that is kept which was decided at run time: in the data folder, also for the gateways that clients spawn for
 * themselves, so that what was added is there whoever started the gateway. Several may have it open.
 */
export function runTimeStorePath(
  { state, load }: Pick<AppOptions, 'state' | 'load'>,
  { dataDir }: DesiredState,
): string {
  if (state === 'none') return ':memory:';
  return new DataFolder(dataDir ?? defaultDataDir(load.env)).file('truth.db');
}

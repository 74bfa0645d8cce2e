import type { DesiredState } from '../../model/desired-state.ts';
import { StoreError } from '../../store/run-time-store/run-time-store.ts';
import { StoreUnusable } from '../../store/run-time-store/run-time-store-file.ts';
import type { AppOptions } from '../app-options.ts';
import type { OpenProblem } from '../open-problem.ts';
import { runTimeStorePath } from './run-time-store-path.ts';

/** Pins are there too: without them nothing may be trusted anew, so that no node starts without its store. */
const REACH = 'see that the database can be reached and used, and start again';
const RESTORE = 'run the Trunkline that wrote it, or `trunkline restore`';

/** What a person has to do who meets this error on the way to what was decided at run time; null for any other error. */
export function runTimeStoreProblem(
  error: unknown,
  options: Pick<AppOptions, 'state' | 'load'>,
  state: DesiredState,
): OpenProblem | null {
  if (error instanceof StoreUnusable) {
    const { file, message, remedy } = error;
    return { kind: 'truth', file, message, remedy };
  }
  if (!(error instanceof StoreError)) return null;
  const { message } = error;
  if (state.cluster?.store != null && options.state !== 'none') {
    return { kind: 'truth', file: 'cluster.store', message, remedy: REACH };
  }
  const file = runTimeStorePath(options, state);
  return { kind: 'truth', file, message: `${file}: ${message}`, remedy: RESTORE };
}

import type { Clock } from '../model/clock.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { PostgresTruth } from '../store/truth/postgres/postgres-truth.ts';
import { SqliteTruth } from '../store/truth/sqlite-truth.ts';
import type { Truth } from '../store/truth/truth.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { AppOptions } from './app-options.ts';
import { truthPath } from './truth-path.ts';

const SCHEMA = 'trunkline';

export interface OpenedTruth {
  readonly truth: Truth;
  /** Other nodes write to it too. */
  readonly shared: boolean;
  /** Why servers cannot be added or changed at run time for good; null where they can. */
  readonly refusal: string | null;
}

/**
 * Where that is kept which is decided at run time: in the data folder, or in the database that the nodes of a cluster
 * share. A cluster without one refuses such changes: made on one node, they would be lost with it. Throws TruthUnusable.
 */
export function openTruth(
  options: Pick<AppOptions, 'state' | 'load'>,
  state: DesiredState,
  clock: Clock,
  logger: Logger,
): OpenedTruth {
  const { cluster } = state;
  const alone = cluster === null || options.state === 'none';
  if (!alone && cluster.store !== null) {
    const truth = new PostgresTruth({ url: cluster.store.reveal(), schema: SCHEMA, clock });
    return { truth, shared: true, refusal: null };
  }
  const truth = new SqliteTruth({ path: truthPath(options, state), clock, logger });
  return { truth, shared: false, refusal: alone ? null : NO_STORE };
}

const NO_STORE =
  'the nodes of this cluster share no store, so the change would be lost with this node: name a PostgreSQL in cluster.store, change the files, or add the server for a time (ttlMs, --ttl) or a session';

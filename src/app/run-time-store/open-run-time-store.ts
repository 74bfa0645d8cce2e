import type { Clock } from '../../model/clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { PostgresRunTimeStore } from '../../store/run-time-store/postgres/postgres-run-time-store.ts';
import type { RunTimeStore } from '../../store/run-time-store/run-time-store.ts';
import { SqliteRunTimeStore } from '../../store/run-time-store/sqlite-run-time-store.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { AppOptions } from '../app-options.ts';
import { ReadOnlyStore } from './read-only-store.ts';
import { runTimeStorePath } from './run-time-store-path.ts';

const SCHEMA = 'trunkline';

export interface OpenedStore {
  readonly runTimeStore: RunTimeStore;
  /** Other nodes write to it too. */
  readonly shared: boolean;
  /** Why servers cannot be added or changed at run time for good; null where they can. */
  readonly refusal: string | null;
  /** Why no operator can decide here what may be offered; null where one can. */
  readonly undecidable: string | null;
}

/**
 * Where that is kept which is decided at run time: in the data folder, or in the database that the nodes of a cluster
 * share. A cluster without one refuses such changes: made on one node, they would be lost with it. Throws StoreUnusable.
 */
export function openRunTimeStore(
  options: Pick<AppOptions, 'state' | 'load' | 'joins'>,
  state: DesiredState,
  clock: Clock,
  logger: Logger,
): OpenedStore {
  const { cluster } = state;
  const looks = options.state === 'look';
  const alone = cluster === null || (options.state === 'none' && options.joins !== true);
  if (!alone && cluster.store !== null) {
    const runTimeStore = new PostgresRunTimeStore({ url: cluster.store.reveal(), schema: SCHEMA, clock });
    return looks ? looking(runTimeStore) : { runTimeStore, shared: true, refusal: null, undecidable: null };
  }
  const runTimeStore = new SqliteRunTimeStore({ path: runTimeStorePath(options, state), clock, logger });
  if (looks) return looking(runTimeStore);
  if (options.state === 'none') warnOfForgotten(state, logger);
  const here = { runTimeStore, shared: false };
  return alone
    ? { ...here, refusal: null, undecidable: null }
    : { ...here, refusal: NO_STORE, undecidable: UNDECIDABLE };
}

function looking(runTimeStore: RunTimeStore): OpenedStore {
  return { runTimeStore: new ReadOnlyStore(runTimeStore), shared: false, refusal: ONLY_LOOKS, undecidable: ONLY_LOOKS };
}

/** Whoever wants to be asked before a changed definition is offered has to be told that a restart forgets what was approved. */
function warnOfForgotten({ servers }: DesiredState, logger: Logger): void {
  const guarded = [...servers.values()].filter(({ drift }) => drift === 'hold' || drift === 'block');
  if (guarded.length === 0) return;
  const reason = 'without a data folder each start trusts what servers offer then; name a dataDir';
  logger.warn('pins_not_kept', { servers: guarded.map(({ name }) => name), reason });
}

const ONLY_LOOKS = 'a gateway that was started for one command changes nothing';

const UNSHARED = 'the nodes of this cluster share no store, so';
const NO_STORE = `${UNSHARED} the change would be lost with this node: name a PostgreSQL in cluster.store, change the files, or add the server for a time (ttlMs, --ttl) or a session`;
const UNDECIDABLE = `${UNSHARED} the other nodes would not know of it, and offer what they did: name a PostgreSQL in cluster.store`;

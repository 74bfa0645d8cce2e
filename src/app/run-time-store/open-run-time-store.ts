import type { Bus } from '../../bus/bus.ts';
import type { Clock } from '../../model/clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { LastKnownStore } from '../../store/run-time-store/last-known-store.ts';
import { PostgresRunTimeStore, placeOf } from '../../store/run-time-store/postgres/postgres-run-time-store.ts';
import { type RunTimeStore, StoreError } from '../../store/run-time-store/run-time-store.ts';
import { StoreUnusable } from '../../store/run-time-store/run-time-store-file.ts';
import { SqliteRunTimeStore } from '../../store/run-time-store/sqlite-run-time-store.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { AppOptions, OpenProblem } from '../app-options.ts';
import { gatewayFolder } from '../gateway-folders.ts';

const SCHEMA = 'trunkline';
/** What a node needs to start. */
const COPIED = ['server', 'suspended', 'pins.servers', 'pins', 'secrets', 'credentials', 'logins', 'oauth_clients'];

export interface OpenedStore {
  readonly runTimeStore: RunTimeStore;
  /** The same, for tokens: what a command that only looks renews is kept, for the authorization server takes it only once. */
  readonly credentialStore: RunTimeStore;
  /** Other nodes write to it too. */
  readonly shared: boolean;
  /** Why servers cannot be added or changed at run time for good; null where they can. */
  readonly refusal: string | null;
  /** Why no operator can decide here what may be offered; null where one can. */
  readonly undecidable: string | null;
}

/**
 * The run-time store: in the data folder, or in the database that the nodes of a cluster share. A cluster without one
 * refuses changes at run time: made on one node, they would be lost with it. Throws StoreUnusable.
 */
export function openRunTimeStore(
  options: Pick<AppOptions, 'state' | 'load' | 'joins'>,
  state: Pick<DesiredState, 'cluster' | 'dataDir' | 'servers'>,
  clock: Clock,
  logger: Logger,
): OpenedStore {
  const { cluster } = state;
  const looks = options.state === 'look';
  const alone = cluster === null || (options.state === 'none' && options.joins !== true);
  const decidable = { refusal: null, undecidable: null };
  if (!alone && cluster.store !== null) {
    const url = cluster.store.reveal();
    const database = new PostgresRunTimeStore({ url, schema: SCHEMA, clock });
    const runTimeStore =
      options.state === 'none'
        ? database
        : new LastKnownStore({
            store: database,
            place: placeOf(url),
            path: gatewayFolder(state.dataDir, options.load).file('store.copy'),
            collections: COPIED,
            keeps: !looks,
            logger,
          });
    return looks ? looking(runTimeStore) : { runTimeStore, credentialStore: runTimeStore, shared: true, ...decidable };
  }
  const runTimeStore = new SqliteRunTimeStore({ path: runTimeStorePath(options, state), clock, logger });
  if (looks) return looking(runTimeStore);
  if (options.state === 'none') warnOfForgotten(state, logger);
  const reasons = alone ? decidable : { refusal: NO_STORE, undecidable: UNDECIDABLE };
  return { runTimeStore, credentialStore: runTimeStore, shared: false, ...reasons };
}

/** A command that only looks offers what a gateway would; what it writes counts for its process, which holds it in memory. */
function looking(store: RunTimeStore): OpenedStore {
  const runTimeStore = writingBy(store, async () => ({ ok: true, revision: 0 }));
  return { runTimeStore, credentialStore: store, shared: false, refusal: ONLY_LOOKS, undecidable: ONLY_LOOKS };
}

/** The same store, with another way to write. */
function writingBy(runTimeStore: RunTimeStore, apply: RunTimeStore['apply']): RunTimeStore {
  return {
    read: (collections) => runTimeStore.read(collections),
    list: (collection, options) => runTimeStore.list(collection, options),
    apply,
    close: () => runTimeStore.close(),
  };
}

/** A node that has written to the store reports it here, with the revision. */
export const STORE_WRITTEN = 'trunkline.truth';

/** The store that nodes share. It notifies the others of changes, so that they need not wait for their next poll. */
export function announcing(runTimeStore: RunTimeStore, bus: Bus): RunTimeStore {
  return writingBy(runTimeStore, async (writes) => {
    const applied = await runTimeStore.apply(writes);
    if (applied.ok) bus.publish(STORE_WRITTEN, Buffer.from(String(applied.revision)));
    return applied;
  });
}

/** In the data folder also for gateways that clients start; several may have the file open. */
function runTimeStorePath(
  { state, load }: Pick<AppOptions, 'state' | 'load'>,
  { dataDir }: Pick<DesiredState, 'dataDir'>,
): string {
  if (state === 'none') return ':memory:';
  return gatewayFolder(dataDir, load).file('truth.db');
}

/** An operator who wants to approve changed definitions has to know that a restart forgets what was approved. */
function warnOfForgotten({ servers }: Pick<DesiredState, 'servers'>, logger: Logger): void {
  const guarded = [...servers.values()].filter(({ drift }) => drift === 'hold' || drift === 'block');
  if (guarded.length === 0) return;
  const reason = 'without a data folder each start trusts what servers offer then; name a dataDir';
  logger.warn('pins_not_kept', { servers: guarded.map(({ name }) => name), reason });
}

const ONLY_LOOKS = 'a gateway that was started for one command changes nothing';

const UNSHARED = 'the nodes of this cluster share no store, so';
const NO_STORE = `${UNSHARED} the change would be lost with this node: name a PostgreSQL in cluster.store, change the files, or add the server for a time (ttlMs, --ttl) or a session`;
const UNDECIDABLE = `${UNSHARED} the other nodes would not know of it, and offer what they did: name a PostgreSQL in cluster.store`;

/** The store has the pins too: without them nothing new may be trusted, so no node starts without a copy of them. */
const REACH = 'see that the database can be reached and used, and start again';
const RESTORE = 'run the Trunkline that wrote it, or `trunkline restore`';

/** What a person has to do about an error of the run-time store; null for any other error. */
export function runTimeStoreProblem(
  error: unknown,
  options: Pick<AppOptions, 'state' | 'load'>,
  state: Pick<DesiredState, 'cluster' | 'dataDir'>,
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

import type { Bus } from '../../bus/bus.ts';
import { BucketRunTimeStore, IN_JETSTREAM, MAKING } from '../../cluster/run-time-store/bucket-run-time-store.ts';
import { Sealer } from '../../gateway/sealer.ts';
import type { Clock } from '../../model/clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { systemRandom } from '../../model/random.ts';
import { sealingOf } from '../../model/sealing.ts';
import { copyIn, LastKnownStore } from '../../store/run-time-store/last-known-store.ts';
import { databaseLocation, PostgresRunTimeStore } from '../../store/run-time-store/postgres/postgres-run-time-store.ts';
import { type RunTimeStore, StoreError, type StoreSnapshot } from '../../store/run-time-store/run-time-store.ts';
import { StoreUnusable } from '../../store/run-time-store/run-time-store-file.ts';
import { SqliteRunTimeStore } from '../../store/run-time-store/sqlite-run-time-store.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { AppOptions, OpenProblem } from '../app-options.ts';
import type { ClusterConnection } from '../cluster/cluster-connection.ts';
import { gatewayFolder } from '../gateway-folders.ts';

const SCHEMA = 'trunkline';
const EVENTS = 'pins.events';
const DECISION_COLLECTIONS = ['server', 'suspended', 'pins.servers', 'pins'];
/** The collections that a node needs to start. */
const COPIED = [...DECISION_COLLECTIONS, 'secrets', 'credentials', 'logins', 'oauth_clients'];

export interface OpenedStore {
  readonly runTimeStore: RunTimeStore;
  /**
   * For secrets and tokens: the same store; in a cluster without a database, that of this node. A command that only reads
   * stores the tokens it renews, because a refresh token can be used only once.
   */
  readonly credentialStore: RunTimeStore;
  /** Other nodes write to the run-time store too. */
  readonly shared: boolean;
  /** Why changes of servers at run time cannot be stored; null if they can. */
  readonly refusal: string | null;
  /** Why operators cannot approve or block definitions here; null if they can. */
  readonly undecidable: string | null;
}

/**
 * Opens the run-time store: a file in the data folder, or the store that the nodes of a cluster share: a database, else
 * JetStream. In a cluster without a database, changes need `connection`. Throws StoreUnusable.
 */
export function openRunTimeStore(
  options: Pick<AppOptions, 'state' | 'load' | 'joins'>,
  state: Pick<DesiredState, 'cluster' | 'dataDir' | 'servers'>,
  clock: Clock,
  logger: Logger,
  connection: ClusterConnection | null = null,
): OpenedStore {
  const { cluster } = state;
  const isReadOnly = options.state === 'look';
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
            place: databaseLocation(url),
            path: gatewayFolder(state.dataDir, options.load).file('store.copy'),
            collections: COPIED,
            updatesCopy: !isReadOnly,
            logger,
          });
    return isReadOnly
      ? readOnlyStore(runTimeStore)
      : { runTimeStore, credentialStore: runTimeStore, shared: true, ...decidable };
  }
  const runTimeStore = new SqliteRunTimeStore({ path: runTimeStorePath(options, state), clock, logger });
  if (isReadOnly) return readOnlyStore(runTimeStore);
  if (connection !== null) {
    const path = options.state === 'none' ? null : gatewayFolder(state.dataDir, options.load).file('store.copy');
    const shared = inJetStream(connection, path, clock, logger);
    return { runTimeStore: shared, credentialStore: runTimeStore, shared: true, ...decidable };
  }
  if (options.state === 'none') warnOfForgotten(state, logger);
  const reasons = alone ? decidable : { refusal: NO_NODE, undecidable: NO_NODE };
  return { runTimeStore, credentialStore: runTimeStore, shared: false, ...reasons };
}

/** Opens the store in JetStream. `path`: the copy that this node keeps; null for none. */
function inJetStream(
  { state, key, previousKeys = [], name = null, identity }: ClusterConnection,
  path: string | null,
  clock: Clock,
  logger: Logger,
): RunTimeStore {
  const place = `JetStream of the cluster ${name ?? 'without a name'}`;
  const sealing = sealingOf([key, ...previousKeys], (one) => new Sealer(one));
  const lastKnown = (): StoreSnapshot | null => {
    const copy = copyIn(path, place);
    return typeof copy === 'string' ? null : copy;
  };
  const confirmed = (): boolean => identity.confirmed;
  const store = new BucketRunTimeStore({ state, sealing, clock, random: systemRandom, logger, confirmed, lastKnown });
  const collections = [...DECISION_COLLECTIONS, MAKING];
  return new LastKnownStore({ store, place, path, mayStartEmpty: true, collections, updatesCopy: true, logger });
}

/**
 * Moves changes that a node stored before its cluster shared a store. Records of the shared store win, and so do its pins of a
 * server over all pins of this node for that server. If the shared store is unavailable, the next start moves the rest.
 */
async function migrateDecisions(from: RunTimeStore, to: RunTimeStore, logger: Logger): Promise<void> {
  const { records } = await from.read([...DECISION_COLLECTIONS, EVENTS]);
  const own = Array.from(records, ([collection, some]) =>
    [...some.values()].map((record) => ({ collection, ...record })),
  ).flat();
  if (own.length === 0) return;
  let moved = 0;
  try {
    const pinned = serversIn((await to.read(['pins.servers'])).records.get('pins.servers')!.values());
    for (const { collection, key, value } of own) {
      const isTheirs = collection.startsWith('pins') && pinned.has(serverIn(value));
      const write = { collection, key } as const;
      const applied = isTheirs || (await to.apply([{ kind: 'put', ...write, value, expected: null }])).ok;
      if (applied && !isTheirs) moved++;
      await from.apply([{ kind: 'delete', ...write }]);
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    logger.warn('run_time_changes_not_moved', { reason: error.message });
  }
  if (moved > 0) logger.warn('run_time_changes_moved', { records: moved, to: 'JetStream, for all nodes' });
}

function serversIn(records: Iterable<{ readonly value: string }>): ReadonlySet<string> {
  return new Set(Array.from(records, ({ value }) => serverIn(value)));
}

function serverIn(value: string): string {
  return (JSON.parse(value) as { readonly server: string }).server;
}

/** A command that only reads offers what a gateway would. Its changes are not stored; they apply in the memory of its process. */
function readOnlyStore(store: RunTimeStore): OpenedStore {
  const runTimeStore = withApply(store, async () => ({ ok: true, revision: 0 }));
  return { runTimeStore, credentialStore: store, shared: false, refusal: READ_ONLY, undecidable: READ_ONLY };
}

/** Returns the same store with another `apply`. */
function withApply(runTimeStore: RunTimeStore, apply: RunTimeStore['apply']): RunTimeStore {
  return {
    read: (collections) => runTimeStore.read(collections),
    list: (collection, options) => runTimeStore.list(collection, options),
    apply,
    close: () => runTimeStore.close(),
  };
}

/** Subject on which a node reports a write to the store, with the revision. */
export const STORE_WRITTEN = 'trunkline.truth';

/** Opens the stores of a gateway. Throws StoreUnusable. If it rejects, none is open. */
export async function openStores(
  options: Pick<AppOptions, 'state' | 'load' | 'joins'>,
  state: Pick<DesiredState, 'cluster' | 'dataDir' | 'servers'>,
  connection: ClusterConnection | null,
  clock: Clock,
  logger: Logger,
) {
  const opened = openRunTimeStore(options, state, clock, logger, connection);
  const { shared, refusal, undecidable } = opened;
  const announced = shared && connection !== null;
  const runTimeStore = announced ? withNotifications(opened.runTimeStore, connection.bus) : opened.runTimeStore;
  const isOne = opened.credentialStore === opened.runTimeStore;
  const records = isOne ? runTimeStore : opened.credentialStore;
  const close = async (): Promise<void> => {
    await runTimeStore.close();
    if (!isOne) await records.close();
  };
  try {
    if (shared && !isOne) await migrateDecisions(records, runTimeStore, logger);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    runTimeStore,
    /** Holds secrets and tokens. */
    records,
    /** The store in the data folder of this node; null if a database holds everything. */
    folderStore: shared && isOne ? null : records,
    shared,
    refusal,
    undecidable,
    close,
  };
}

/** Returns the shared store. It notifies the other nodes of writes, so that they need not wait for their next poll. */
function withNotifications(runTimeStore: RunTimeStore, bus: Bus): RunTimeStore {
  return withApply(runTimeStore, async (writes) => {
    const applied = await runTimeStore.apply(writes);
    if (applied.ok) bus.publish(STORE_WRITTEN, Buffer.from(String(applied.revision)));
    return applied;
  });
}

/** Gateways that clients start use the file in the data folder too; several processes may have it open. */
function runTimeStorePath(
  { state, load }: Pick<AppOptions, 'state' | 'load'>,
  { dataDir }: Pick<DesiredState, 'dataDir'>,
): string {
  if (state === 'none') return ':memory:';
  return gatewayFolder(dataDir, load).file('truth.db');
}

/** Warns operators who approve changed definitions that a restart forgets the approvals. */
function warnOfForgotten({ servers }: Pick<DesiredState, 'servers'>, logger: Logger): void {
  const guarded = [...servers.values()].filter(({ drift }) => drift === 'hold' || drift === 'block');
  if (guarded.length === 0) return;
  const reason = 'without a data folder each start trusts what servers offer then; name a dataDir';
  logger.warn('pins_not_kept', { servers: guarded.map(({ name }) => name), reason });
}

const READ_ONLY = 'a gateway that was started for one command changes nothing';

const NO_NODE =
  'the nodes of this cluster keep such changes in NATS: start the gateway, and repeat it, or name a PostgreSQL in cluster.store';

/** The store also holds the pins. Without them no definition may be trusted, so no node starts without the store or a copy. */
const REACH = 'see that the database can be reached and used, and start again';
const SAME_SECRET =
  'see that all nodes have the same cluster.secret, and both secrets while it changes; if the record is damaged, stop all nodes and delete the stream: they write it again from their copies';
const RESTORE = 'run the Trunkline that wrote it, or `trunkline restore`';

/** Returns the problem for an error of the run-time store; null for any other error. */
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
  if (message.startsWith(IN_JETSTREAM)) return { kind: 'truth', file: 'cluster', message, remedy: SAME_SECRET };
  const file = runTimeStorePath(options, state);
  return { kind: 'truth', file, message: `${file}: ${message}`, remedy: RESTORE };
}

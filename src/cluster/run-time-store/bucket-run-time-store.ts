import { pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import {
  type Applied,
  checkBounds,
  LIST_LIMIT,
  type ListOptions,
  type RunTimeStore,
  StoreError,
  type StoreRecord,
  type StoreSnapshot,
  type StoreWrite,
} from '../../store/run-time-store/run-time-store.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { Resealing } from '../resealing.ts';
import { ChangeLog, type LoggedChange, type LogHead } from './change-log.ts';
import { missingWrites, RecordSet } from './record-set.ts';

/** Number of changes after which a node makes a new snapshot. */
const MOST_CHANGES = 256;
const ATTEMPTS = 64;
/** Collection and key of the log's `making` in snapshots and copies of the store: from which log they are. */
export const MAKING = 'store.making';
/** Prefix of the messages of its errors. */
export const IN_JETSTREAM = 'JetStream: ';

interface BucketRunTimeStoreDeps extends Pick<ClusterDeps, 'state' | 'sealing' | 'clock' | 'random' | 'logger'> {
  /** Whether the cluster certainly uses this node's secret. */
  readonly confirmed: () => boolean;
  /** The copy that this node kept when it ended; null if there is none. */
  readonly lastKnown: () => StoreSnapshot | null;
}

/**
 * The run-time store of a cluster without a database: a change log in JetStream, which each node reads to its end before it
 * answers, so that every node sees acknowledged changes. If the log is lost, nodes recreate it from their copies (decision 088).
 */
export class BucketRunTimeStore implements RunTimeStore {
  readonly #deps: BucketRunTimeStoreDeps;
  readonly #log: ChangeLog;
  readonly #resealing: Resealing;
  #set: RecordSet | null = null;
  #head: LogHead | null = null;
  /** Number of the last change in the set. */
  #number = 0;
  #last: Promise<unknown> = Promise.resolve();
  #compacting: Promise<void> | null = null;
  #closed = false;

  constructor(deps: BucketRunTimeStoreDeps) {
    this.#deps = deps;
    this.#log = new ChangeLog(deps.state, deps.sealing, deps.random);
    this.#resealing = new Resealing({
      ...deps,
      bucket: this.#log.bucket,
      reseal: (record) => this.#log.reseal(record),
    });
  }

  read(collections: readonly string[]): Promise<StoreSnapshot> {
    return this.#exclusively(async () => {
      const set = await this.#current();
      const records = new Map(collections.map((name) => [name, new Map<string, StoreRecord>()]));
      const making = this.#head === null ? [] : [{ key: MAKING, value: this.#head.making, revision: 0 }];
      for (const name of collections) {
        const rows = name === MAKING ? making : [...set.of(name).values()];
        for (const { key, value, revision } of rows.sort(byKey)) records.get(name)!.set(key, { key, value, revision });
      }
      return { revision: set.revision, records };
    });
  }

  list(collection: string, { prefix = '', after = '', limit = LIST_LIMIT }: ListOptions = {}) {
    return this.#exclusively(async (): Promise<readonly StoreRecord[]> => {
      const rows = [...(await this.#current()).of(collection).values()];
      const wanted = rows.filter(({ key }) => key.startsWith(prefix) && key > after).sort(byKey);
      return wanted.slice(0, limit).map(({ key, value, revision }) => ({ key, value, revision }));
    });
  }

  async apply(writes: readonly StoreWrite[]): Promise<Applied> {
    checkBounds(writes);
    return this.#exclusively(() => this.#apply(() => writes));
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#resealing.close();
    await this.#last.catch(() => {});
    await this.#compacting;
  }

  /** `least`: the revision of the change must be higher. */
  async #apply(writesFor: (set: RecordSet) => readonly StoreWrite[], least = 0): Promise<Applied> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const set = await this.#current();
      const writes = writesFor(set);
      const revision = Math.max(set.revision, least) + 1;
      const plan = set.plan(writes, revision);
      if (!plan.ok) return plan;
      if (plan.summary === null) return { ok: true, revision: set.revision };
      if (this.#head === null && !(await this.#log.begin(new RecordSet()))) continue;
      const change: LoggedChange = { id: this.#deps.random.hex(8), revision, writes };
      const number = this.#number + 1;
      if (await this.#append(number, change)) {
        set.take(plan);
        this.#number = number;
        this.#head ??= await this.#readHead();
        this.#compactIfLong(set);
        return { ok: true, revision };
      }
      await pause(this.#deps.clock, attempt);
    }
    throw new StoreError('unavailable', 'other nodes change it all the time');
  }

  /** Without an answer, reads the log to see whether it has the change. */
  async #append(number: number, change: LoggedChange): Promise<boolean> {
    try {
      return await this.#log.append(number, change);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.outcome !== 'UNKNOWN') throw error;
      const there = await this.#log.change(number).catch(() => null);
      if (there === null)
        throw new StoreError(
          'unknown',
          'NATS did not answer; check whether the change was made before repeating it',
          error,
        );
      return there.id === change.id;
    }
  }

  /** Returns the records after all changes in the log. */
  async #current(): Promise<RecordSet> {
    const head = await this.#readHead();
    if (this.#set !== null && head?.making === this.#head?.making) {
      this.#head = head;
      if (await this.#catchesUp()) return this.#set;
    }
    await this.#load(head);
    await this.#follow();
    return this.#set!;
  }

  /** The log keeps the changes since the last snapshot but one. Returns false if this node is further behind. */
  async #catchesUp(): Promise<boolean> {
    try {
      await this.#follow();
    } catch (error) {
      if (error instanceof StoreError && error.fault === 'unavailable') return false;
      throw error;
    }
    return this.#number >= (this.#head?.number ?? 0);
  }

  /** Replaces a log that is sealed with a former secret, once the cluster certainly uses this node's secret. */
  async #readHead(): Promise<LogHead | null> {
    const found = await this.#log.head();
    if (found?.head !== 'foreign') return found?.head ?? null;
    const { confirmed, logger } = this.#deps;
    if (!confirmed())
      throw new StoreError('unavailable', 'the changes made at run time are sealed with another cluster.secret');
    const known = this.#set ?? this.#known() ?? new RecordSet();
    if (await this.#log.begin(known, found)) {
      logger.warn('run_time_store_made_again', { revision: known.revision, reason: 'sealed with a former secret' });
    }
    return this.#readHead();
  }

  #known(): RecordSet | null {
    const copy = this.#deps.lastKnown();
    return copy === null ? null : RecordSet.of(copy, MAKING);
  }

  async #follow(): Promise<void> {
    for (;;) {
      const change = this.#head === null ? null : await this.#log.change(this.#number + 1);
      if (change === null) return;
      const plan = this.#set!.plan(change.writes, change.revision);
      if (!plan.ok) throw new StoreError('damaged', `change ${this.#number + 1} does not follow the one before`);
      this.#set!.take(plan);
      this.#number++;
    }
  }

  /** Loads the records the first time, after a long absence, or from another log; to that it adds what this node knew. */
  async #load(head: LogHead | null): Promise<void> {
    const { lastKnown, logger } = this.#deps;
    const copy = this.#set === null ? lastKnown() : null;
    const known = copy === null ? this.#set : this.#known();
    const making = copy === null ? this.#head?.making : copy.records.get(MAKING)?.get(MAKING)?.value;
    if (head === null && known !== null && known.revision > 0) {
      const isFirst = await this.#log.begin(known);
      if (isFirst)
        logger.warn('run_time_store_made_again', { revision: known.revision, records: [...known.rows()].length });
      return this.#load(await this.#readHead());
    }
    this.#set = head === null ? new RecordSet() : await this.#log.recordsOf(head);
    this.#number = head?.number ?? 0;
    this.#head = head;
    if (known === null || head === null || making === undefined || making === head.making) return;
    const missing = (set: RecordSet) => missingWrites(set, head.base, known);
    await this.#follow();
    if (missing(this.#set).length === 0 || known.revision <= head.base) return;
    logger.warn('run_time_store_completed', { revision: known.revision, records: missing(this.#set).length });
    await this.#apply(missing, known.revision);
  }

  #compactIfLong(set: RecordSet): void {
    if (this.#compacting !== null || this.#head === null || this.#number - this.#head.number < MOST_CHANGES) return;
    // A copy, because later changes do not wait for the snapshot.
    const copy = new RecordSet(set.revision, [...set.rows()]);
    const compacted = this.#log.compact(this.#head, this.#number, copy).catch((error) => {
      this.#deps.logger.debug('run_time_changes_not_compacted', { error: String(error) });
    });
    this.#compacting = compacted.finally(() => {
      this.#compacting = null;
    });
  }

  #exclusively<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#last.then(async () => {
      if (this.#closed) throw new StoreError('unavailable', 'the store is closed');
      try {
        return await task();
      } catch (error) {
        throw translated(error);
      }
    });
    this.#last = result.catch(() => {});
    return result;
  }
}

function translated(error: unknown): unknown {
  if (!(error instanceof StoreError) && !(error instanceof GatewayError)) return error;
  return new StoreError(
    error instanceof StoreError ? error.fault : 'unavailable',
    `${IN_JETSTREAM}${error.message}`,
    error,
  );
}

function byKey(one: { readonly key: string }, other: { readonly key: string }): number {
  return one.key < other.key ? -1 : 1;
}

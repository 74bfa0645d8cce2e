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
import { lacking, RecordSet } from './record-set.ts';

/** Changes after the last snapshot. */
const MOST_CHANGES = 256;
const ATTEMPTS = 64;
/** Of the log, in snapshots and copies: from which making of it they are. */
export const MAKING = 'store.making';
/** How what it throws begins. */
export const IN_JETSTREAM = 'JetStream: ';

interface BucketRunTimeStoreDeps extends Pick<ClusterDeps, 'state' | 'sealing' | 'clock' | 'random' | 'logger'> {
  /** Whether the cluster is certainly that of this node's secret. */
  readonly confirmed: () => boolean;
  /** What this node knew when it ended; null: nothing. */
  readonly lastKnown: () => StoreSnapshot | null;
}

/**
 * The truth of a cluster without a database: a log of changes in JetStream, which each node reads to its end before it answers. What
 * one node acknowledged, every other one finds. If the log is lost, the nodes make it again from what they know (decision 088).
 */
export class BucketRunTimeStore implements RunTimeStore {
  readonly #deps: BucketRunTimeStoreDeps;
  readonly #log: ChangeLog;
  readonly #resealing: Resealing;
  #set: RecordSet | null = null;
  #head: LogHead | null = null;
  /** The last change that is in the set. */
  #number = 0;
  #last: Promise<unknown> = Promise.resolve();
  #compacting: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(deps: BucketRunTimeStoreDeps) {
    this.#deps = deps;
    this.#log = new ChangeLog(deps.state, deps.sealing, deps.random);
    this.#resealing = new Resealing({ ...deps, bucket: this.#log.bucket, reseal: (record) => this.#log.anew(record) });
  }

  read(collections: readonly string[]): Promise<StoreSnapshot> {
    return this.#exclusively(async () => {
      const set = await this.#current();
      const records = new Map(collections.map((name) => [name, new Map<string, StoreRecord>()]));
      for (const name of collections) {
        const rows = name === MAKING ? this.#makingOf() : [...set.of(name).values()];
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

  /** `least`: a revision that the change must not have. */
  async #apply(writesFor: (set: RecordSet) => readonly StoreWrite[], least = 0): Promise<Applied> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const set = await this.#current();
      const writes = writesFor(set);
      const revision = Math.max(set.revision, least) + 1;
      const plan = set.plan(writes, revision);
      if (!plan.ok) return plan;
      if (plan.whole === null) return { ok: true, revision: set.revision };
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

  /** Where the answer did not come, what is there says whether it was written. */
  async #append(number: number, change: LoggedChange): Promise<boolean> {
    try {
      return await this.#log.append(number, change);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.outcome !== 'UNKNOWN') throw error;
      const there = await this.#log.change(number).catch(() => null);
      if (there === null) throw new StoreError('unknown', 'NATS did not answer; look before you repeat it', error);
      return there.id === change.id;
    }
  }

  /** With all changes that there are. */
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

  /** Those since the snapshot before the last one are kept. False: this node is further behind. */
  async #catchesUp(): Promise<boolean> {
    try {
      await this.#follow();
    } catch (error) {
      if (error instanceof StoreError && error.fault === 'unavailable') return false;
      throw error;
    }
    return this.#number >= (this.#head?.number ?? 0);
  }

  /** A log that is sealed with a former secret is replaced, once no node has that secret. */
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

  /** For the first time, after a long absence, or because the log is another one: then with what this node knew. */
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
    const missing = (set: RecordSet) => lacking(set, head.base, known);
    await this.#follow();
    if (missing(this.#set).length === 0 || known.revision <= head.base) return;
    logger.warn('run_time_store_completed', { revision: known.revision, records: missing(this.#set).length });
    await this.#apply(missing, known.revision);
  }

  #makingOf() {
    const { making } = this.#head ?? { making: null };
    return making === null ? [] : [{ key: MAKING, value: making, revision: 0 }];
  }

  #compactIfLong(set: RecordSet): void {
    if (this.#head === null || this.#number - this.#head.number < MOST_CHANGES) return;
    // The next changes go on meanwhile; this one is in the snapshot or after it.
    const copy = new RecordSet(set.revision, [...set.rows()]);
    this.#compacting = this.#log.compact(this.#number, copy).catch((error) => {
      this.#deps.logger.debug('run_time_changes_not_compacted', { error: String(error) });
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

import { statSync } from 'node:fs';
import type { StatementSync } from 'node:sqlite';
import type { Clock } from '../../model/clock.ts';
import { messageOf } from '../../model/thrown.ts';
import type { Logger } from '../../telemetry/logger.ts';
import {
  COLUMNS,
  inReadTransaction,
  planChange,
  readSummary,
  recordOf,
  type StoredRow,
  summaryChecksum,
  verifiedRow,
} from './integrity-check.ts';
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
} from './run-time-store.ts';
import { createStoreFile, faultOf, type OpenedFile, openStoreFile, takeSnapshot } from './run-time-store-file.ts';

/** A change is in the snapshot after this time at the latest. */
const SNAPSHOT_AFTER_MS = 1_000;

interface SqliteRunTimeStoreOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

type Statements = Readonly<Record<'all' | 'one' | 'page' | 'put' | 'drop' | 'whole', StatementSync>>;

/**
 * `truth.db`: a change is on disk when it resolves, and a damaged file prevents the start (StoreUnusable). The first change
 * creates the file. SQLite blocks the thread for some milliseconds, so no tool call may write here.
 */
export class SqliteRunTimeStore implements RunTimeStore {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #opened: OpenedFile | null;
  #statements: Statements | null = null;
  #cancelSnapshot: (() => void) | null = null;
  #snapshotting: Promise<void> = Promise.resolve();
  /** Whether the snapshot lacks a change. */
  #snapshotStale = false;
  #closed = false;
  /** SQLite's counter of commits by other connections; 0 before the file exists. */
  #others = 0;

  /** Throws StoreUnusable if the file is damaged. */
  constructor({ path, clock, logger }: SqliteRunTimeStoreOptions) {
    this.#path = path;
    this.#clock = clock;
    this.#logger = logger;
    this.#opened = path === ':memory:' ? createStoreFile(path) : openStoreFile(path);
    this.changedElsewhere();
    // A killed process may have left an outdated snapshot.
    if (this.#opened !== null) this.#snapshotLater();
  }

  async read(collections: readonly string[]): Promise<StoreSnapshot> {
    const nothing = new Map(collections.map((collection) => [collection, new Map<string, StoreRecord>()]));
    return this.#reading({ revision: 0, records: nothing }, ({ all }, { db }) =>
      inReadTransaction(db, () => {
        const { revision } = readSummary(db);
        const recordsOf = (collection: string) =>
          rows(all.all(collection)).map((row) => [row.key, recordOf(row)] as const);
        return { revision, records: new Map(collections.map((name) => [name, new Map(recordsOf(name))])) };
      }),
    );
  }

  async list(collection: string, options: ListOptions = {}): Promise<readonly StoreRecord[]> {
    const { prefix = '', after = '', limit = LIST_LIMIT } = options;
    return this.#reading<readonly StoreRecord[]>([], ({ page }) =>
      rows(page.all(collection, prefix, after, prefix, prefix, limit)).map(recordOf),
    );
  }

  async apply(writes: readonly StoreWrite[]): Promise<Applied> {
    checkBounds(writes);
    if (this.#closed) throw new StoreError('unavailable', 'the store of run-time changes is closed');
    try {
      this.#opened ??= createStoreFile(this.#path);
      this.#refuseLost(this.#opened);
      const applied = this.#change(this.#opened, writes);
      if (applied.ok) this.#snapshotLater();
      return applied;
    } catch (error) {
      throw translated(error, this.#path);
    }
  }

  changedElsewhere(): boolean {
    if (this.#opened === null || this.#closed) return false;
    const row = this.#opened.db.prepare('PRAGMA data_version').get() as { readonly data_version: number };
    const before = this.#others;
    this.#others = row.data_version;
    return this.#others !== before;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancelSnapshot?.();
    await this.#snapshotting;
    if (this.#snapshotStale) await this.#snapshot();
    this.#opened?.db.close();
  }

  #change(opened: OpenedFile, writes: readonly StoreWrite[]): Applied {
    const { db } = opened;
    const { one, put, drop, whole: putSummary } = this.#prepared(opened);
    db.exec('BEGIN IMMEDIATE');
    try {
      const before = readSummary(db);
      const found = writes.flatMap(({ collection, key }) => rows(one.all(collection, key)));
      const plan = planChange(before, found.map(verifiedRow), writes);
      if (!plan.ok || plan.summary === null) {
        db.exec('ROLLBACK');
        return plan.ok ? { ok: true, revision: before.revision } : plan;
      }
      const { summary, puts, drops } = plan;
      for (const { collection, key } of drops) drop.run(collection, key);
      for (const { collection, key, value, revision, sum } of puts) put.run(collection, key, value, revision, sum);
      putSummary.run(summary.revision, summary.count, summary.tally, summaryChecksum(summary));
      db.exec('COMMIT');
      return { ok: true, revision: summary.revision };
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw error;
    }
  }

  #reading<T>(nothing: T, run: (statements: Statements, opened: OpenedFile) => T): T {
    if (this.#closed) throw new StoreError('unavailable', 'the store of run-time changes is closed');
    try {
      // Another process of the data folder may have created the file meanwhile.
      this.#opened ??= openStoreFile(this.#path);
      if (this.#opened === null) return nothing;
      this.#refuseLost(this.#opened);
      return run(this.#prepared(this.#opened), this.#opened);
    } catch (error) {
      throw translated(error, this.#path);
    }
  }

  /** Throws if the open file was removed or replaced: changes to it would be lost when the process ends. */
  #refuseLost({ inode }: OpenedFile): void {
    if (this.#path === ':memory:') return;
    const now = statSync(this.#path, { throwIfNoEntry: false });
    if (now?.ino === inode) return;
    const how = now === undefined ? 'was removed' : 'was replaced by another';
    throw new StoreError('lost', `${this.#path} ${how} while the gateway runs; stop the gateway and put the file back`);
  }

  #prepared({ db }: OpenedFile): Statements {
    this.#statements ??= {
      all: db.prepare(`SELECT ${COLUMNS} FROM records WHERE collection = ? ORDER BY key`),
      one: db.prepare(`SELECT ${COLUMNS} FROM records WHERE collection = ? AND key = ?`),
      page: db.prepare(
        `SELECT ${COLUMNS} FROM records WHERE collection = ? AND key >= ? AND key > ? AND substr(key, 1, length(?)) = ? ORDER BY key LIMIT ?`,
      ),
      put: db.prepare(
        `INSERT INTO records (${COLUMNS}) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value, revision = excluded.revision, sum = excluded.sum`,
      ),
      drop: db.prepare('DELETE FROM records WHERE collection = ? AND key = ?'),
      whole: db.prepare('UPDATE whole SET revision = ?, count = ?, tally = ?, sum = ? WHERE id = 1'),
    };
    return this.#statements;
  }

  #snapshotLater(): void {
    this.#snapshotStale = true;
    if (this.#closed || this.#path === ':memory:') return;
    this.#cancelSnapshot ??= this.#clock.after(SNAPSHOT_AFTER_MS, () => {
      this.#cancelSnapshot = null;
      this.#snapshotting = this.#snapshotting.then(() => this.#snapshot());
    });
  }

  /** Never rejects: if it fails, the previous snapshot stays. */
  async #snapshot(): Promise<void> {
    if (this.#opened === null || this.#path === ':memory:') return;
    this.#snapshotStale = false;
    try {
      await takeSnapshot(this.#opened.db, this.#path);
    } catch (error) {
      this.#snapshotStale = true;
      this.#logger.warn('truth_snapshot_failed', { file: this.#path, error });
    }
  }
}

function rows(found: readonly unknown[]): readonly StoredRow[] {
  return found as readonly StoredRow[];
}

function translated(error: unknown, path: string): StoreError {
  if (error instanceof StoreError) return error;
  const message = messageOf(error);
  return new StoreError(faultOf(error), `${path}: ${message}`, error);
}

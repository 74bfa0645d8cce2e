import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Clock } from '../model/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type OpenStateOptions, openState, recordSum } from './open-state.ts';

/** A change is on disk after this time at the latest. */
const WRITE_BEHIND_MS = 100;
/** Rows and bytes per transaction; more would block the event loop noticeably. */
const BATCH_ROWS = 500;
const BATCH_BYTES = 1024 * 1024;
/** Pause between batches while more is queued: fast writers must not fill the memory. */
const BATCH_PAUSE_MS = 5;

/** Retry interval while the disk accepts no writes, and maximum size of the records that are kept until it does. */
const RETRY_MS = 1_000;
const MAX_KEPT_BYTES = 8 * 1024 * 1024;

/** A record value that is serialised when it is written or read, so that a record deleted before then costs nothing. */
export interface LazyValue {
  /** Approximate memory that it holds until then. */
  readonly length: number;
  bytes(): Buffer;
}

type Read<T> = (value: Buffer, key: string) => T | null;

/** A queued write of a table other than `records`. It makes its data only when it runs. */
export interface QueuedWrite {
  /** Memory that it holds until then; may shrink while it waits. */
  readonly bytes: number;
  run(): void;
}

/**
 * `state.db`: data that may be lost (sessions, known catalogues, era verdicts, event logs). Writes are queued, merged per
 * key and written within 100 ms, and reads see them. While the disk is full, records wait up to a bound, and event logs are
 * not mirrored (F34).
 */
export class StateFile {
  readonly #db: DatabaseSync;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #get: StatementSync;
  readonly #put: StatementSync;
  readonly #delete: StatementSync;
  /** Queued record writes: bucket, NUL, key → value, null for a deletion. */
  #records = new Map<string, Buffer | LazyValue | null>();
  /** Keys of queued records that are not in the file: if they are deleted before the write, nothing is written. */
  readonly #unwritten = new Set<string>();
  /** Queued writes of other tables, in order. */
  #others: QueuedWrite[] = [];
  #cancelFlush: (() => void) | null = null;
  #writable = true;
  #closed = false;

  /** False while the state cannot be written. */
  get writable(): boolean {
    return this.#writable;
  }

  constructor(options: OpenStateOptions) {
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#db = openState(options);
    this.#get = this.#db.prepare('SELECT value FROM records WHERE bucket = ? AND key = ?');
    this.#put = this.#db.prepare(
      'INSERT INTO records (bucket, key, value, sum) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value, sum = excluded.sum',
    );
    this.#delete = this.#db.prepare('DELETE FROM records WHERE bucket = ? AND key = ?');
  }

  get(bucket: string, key: string): Buffer | null {
    const queued = this.#records.get(`${bucket}\0${key}`);
    if (queued !== undefined) return bytesOf(queued);
    const row = this.#get.get(bucket, key) as { value: Uint8Array } | undefined;
    return row === undefined ? null : asBuffer(row.value);
  }

  /** `isNew`: the caller knows that there was no such record before. */
  put(bucket: string, key: string, value: Buffer | LazyValue, isNew = false): void {
    const queuedKey = `${bucket}\0${key}`;
    if (isNew && !this.#records.has(queuedKey)) this.#unwritten.add(queuedKey);
    this.#records.set(queuedKey, value);
    this.#schedule();
  }

  delete(bucket: string, key: string): void {
    const queuedKey = `${bucket}\0${key}`;
    if (this.#unwritten.delete(queuedKey)) this.#records.delete(queuedKey);
    else {
      this.#records.set(queuedKey, null);
      this.#schedule();
    }
  }

  /** All records of a bucket whose keys have the prefix, queued writes included. */
  all(bucket: string, prefix = ''): Map<string, Buffer> {
    const select = this.#db.prepare('SELECT key, value FROM records WHERE bucket = ? AND key >= ? AND key < ?');
    const rows = select.all(bucket, prefix, `${prefix}\u{10ffff}`) as { key: string; value: Uint8Array }[];
    const found = new Map(rows.map((row) => [row.key, asBuffer(row.value)]));
    for (const [queuedKey, queued] of this.#records) {
      if (!queuedKey.startsWith(`${bucket}\0${prefix}`)) continue;
      const value = bytesOf(queued);
      const key = queuedKey.slice(bucket.length + 1);
      if (value === null) found.delete(key);
      else found.set(key, value);
    }
    return found;
  }

  /** The record as `read` parses it. Deletes a record, as damaged, if `read` throws or returns null. */
  readOne<T>(bucket: string, key: string, read: Read<T>, value = this.get(bucket, key)): T | null {
    if (value === null) return null;
    let record: T | null = null;
    try {
      record = read(value, key);
    } catch {}
    if (record === null) this.delete(bucket, key);
    return record;
  }

  /** As `readOne` for all records of a bucket whose keys have the prefix. */
  *readAll<T>(bucket: string, read: Read<T>, prefix = ''): Generator<[string, T], void, undefined> {
    for (const [key, value] of this.all(bucket, prefix)) {
      const record = this.readOne(bucket, key, read, value);
      if (record !== null) yield [key, record];
    }
  }

  prepare(sql: string): StatementSync {
    return this.#db.prepare(sql);
  }

  enqueue(write: QueuedWrite): void {
    this.#others.push(write);
    this.#schedule();
  }

  /** Writes everything queued now, as far as the disk accepts it. */
  flush(): void {
    this.#cancelFlush?.();
    this.#cancelFlush = null;
    while (this.#records.size > 0 || this.#others.length > 0) {
      if (this.#writeBatch()) continue;
      this.#schedule(RETRY_MS);
      return;
    }
  }

  close(): void {
    if (this.#closed) return;
    this.flush();
    this.#cancelFlush?.();
    this.#closed = true;
    this.#db.close();
  }

  #schedule(delayMs = this.#writable ? WRITE_BEHIND_MS : RETRY_MS): void {
    if (this.#closed) return;
    this.#cancelFlush ??= this.#clock.after(delayMs, () => {
      this.#cancelFlush = null;
      const pauseMs = this.#writeBatch() ? BATCH_PAUSE_MS : RETRY_MS;
      if (this.#records.size > 0 || this.#others.length > 0) this.#schedule(pauseMs);
    });
  }

  /** How many of the first queued writes make a batch: at least one if rows are left. */
  #batchOfOthers(rows: number): number {
    let count = 0;
    let bytes = 0;
    while (count < rows && count < this.#others.length && bytes < BATCH_BYTES) bytes += this.#others[count++]!.bytes;
    return count;
  }

  /** False if the disk did not accept the batch; its records then wait. */
  #writeBatch(): boolean {
    const records = takeFirst(this.#records, BATCH_ROWS).map(([key, value]): [string, Buffer | null] => {
      this.#unwritten.delete(key);
      return [key, bytesOf(value)];
    });
    const others = this.#others.splice(0, this.#batchOfOthers(BATCH_ROWS - records.length));
    try {
      this.#db.exec('BEGIN');
      for (const [queuedKey, value] of records) {
        const cut = queuedKey.indexOf('\0');
        const bucket = queuedKey.slice(0, cut);
        const key = queuedKey.slice(cut + 1);
        if (value === null) this.#delete.run(bucket, key);
        else this.#put.run(bucket, key, value, recordSum(bucket, key, value));
      }
      for (const write of others) write.run();
      this.#db.exec('COMMIT');
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      // A disk that stays full would not take the rest either.
      const rest = this.#writable ? [] : this.#others.splice(0);
      const dropped = others.length + rest.length + this.#keep(records);
      // Once per outage: a disk stays full for long, and a log full of this message would not help.
      if (this.#writable) this.#logger.warn('state_not_saved', { waiting: this.#records.size, dropped, error });
      this.#writable = false;
      return false;
    }
    if (!this.#writable) this.#logger.warn('state_saved_again', { waiting: this.#records.size });
    this.#writable = true;
    return true;
  }

  /** Queues records again unless they changed since, up to a bound in memory. Returns how many it dropped. */
  #keep(records: readonly [string, Buffer | null][]): number {
    let bytes = 0;
    for (const [queuedKey, value] of this.#records) bytes += queuedKey.length + (value?.length ?? 0);
    let dropped = 0;
    for (const [queuedKey, value] of records) {
      if (this.#records.has(queuedKey)) continue;
      bytes += queuedKey.length + (value?.length ?? 0);
      if (bytes <= MAX_KEPT_BYTES) this.#records.set(queuedKey, value);
      else dropped++;
    }
    return dropped;
  }
}

function takeFirst<K, V>(map: Map<K, V>, count: number): [K, V][] {
  const taken: [K, V][] = [];
  for (const entry of map) {
    if (taken.length === count) break;
    taken.push(entry);
    map.delete(entry[0]);
  }
  return taken;
}

function bytesOf(value: Buffer | LazyValue | null): Buffer | null {
  return value === null || Buffer.isBuffer(value) ? value : value.bytes();
}

function asBuffer(value: Uint8Array): Buffer {
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

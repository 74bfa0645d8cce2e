import { chmodSync, closeSync, existsSync, openSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { Clock } from '../model/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { setAside } from './set-aside.ts';

const SCHEMA = [
  'CREATE TABLE records (bucket TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (bucket, key)) WITHOUT ROWID',
  'CREATE TABLE events (session TEXT NOT NULL, seq INTEGER NOT NULL, stream TEXT NOT NULL, at REAL NOT NULL, message BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (session, seq)) WITHOUT ROWID',
] as const;

/** Result codes of SQLite for a damaged file. All others mean the disk or the system, and the file may be good. */
const DAMAGE = new Set([1, 8, 11, 24, 26]);
/** The extended code has the kind in its lowest byte. */
const KIND = 0xff;

class Damaged extends Error {}

export interface OpenStateOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Opens `state.db`, whatever state it is in (F35): a damaged file is set aside under another name and a new one begun,
 * damaged rows are taken out, and where the disk does not let us have any, state is kept in memory until the next start.
 * Each with a warning. State is never worth refusing to start for, and never lost in silence.
 */
export function openState(options: OpenStateOptions): DatabaseSync {
  const { path, clock, logger } = options;
  if (path === ':memory:') return open(path, logger);
  try {
    try {
      return open(path, logger);
    } catch (error) {
      if (!isDamage(error)) throw error;
      const aside = setAside(path, clock.wall());
      const reason = 'the state file is damaged; sessions and known catalogues begin anew';
      logger.warn('state_set_aside', { file: path, keptAs: aside, reason, error });
      return open(path, logger);
    }
  } catch (error) {
    const reason = 'the state file cannot be opened; sessions are forgotten when the gateway stops';
    logger.warn('state_in_memory', { file: path, reason, error });
    return open(':memory:', logger);
  }
}

function isDamage(error: unknown): boolean {
  if (!(error instanceof Error) || 'syscall' in error) return false;
  // Without a code of SQLite's it is our own, or of a value that no column of ours has.
  return !('errcode' in error) || DAMAGE.has(Number(error.errcode) & KIND);
}

function open(path: string, logger: Logger): DatabaseSync {
  if (path !== ':memory:') {
    // One that was never written has no pages; one that has been cut to nothing looks the same.
    if (existsSync(path) && statSync(path).size === 0) throw new Damaged('the file is empty');
    keepPrivate(path);
  }
  const db = new DatabaseSync(path);
  try {
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 1000;');
    const check = db.prepare('PRAGMA quick_check(1)').get() as { quick_check: string };
    if (check.quick_check !== 'ok') throw new Damaged(`quick_check: ${check.quick_check}`);
    makeTables(db);
    const lost = takeOutDamaged(db);
    // Fails where a damaged header says that this version of SQLite may not write.
    db.exec("DELETE FROM records WHERE bucket = ''");
    if (lost > 0) logger.warn('state_rows_lost', { file: path, rows: lost, reason: 'their contents were damaged' });
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Tables of another shape than ours would make every statement fail, or a second set of tables beside the lost one. */
function makeTables(db: DatabaseSync): void {
  const found = db.prepare('SELECT sql FROM sqlite_schema').all() as { sql: string | null }[];
  if (found.length === 0) for (const table of SCHEMA) db.exec(table);
  else if (found.length !== SCHEMA.length || !SCHEMA.every((table) => found.some(({ sql }) => sql === table))) {
    throw new Damaged('the tables are not those of this version');
  }
}

/** Reads every row, so that what cannot be read is found now and not in the middle of a request. */
function takeOutDamaged(db: DatabaseSync): number {
  const records = db.prepare('SELECT bucket, key, value, sum FROM records').iterate() as Iterable<RecordRow>;
  const badRecords: RecordRow[] = [];
  for (const row of records) {
    if (!(row.value instanceof Uint8Array) || row.sum !== recordSum(row.bucket, row.key, row.value))
      badRecords.push(row);
  }
  const events = db
    .prepare('SELECT session, seq, stream, at, message, sum FROM events')
    .iterate() as Iterable<EventRow>;
  const badEvents: EventRow[] = [];
  for (const row of events) {
    const { session, seq, stream, at, message, sum } = row;
    if (!(message instanceof Uint8Array) || sum !== eventSum(session, seq, stream, at, message)) badEvents.push(row);
  }
  const dropRecord = db.prepare('DELETE FROM records WHERE bucket = ? AND key = ?');
  const dropEvent = db.prepare('DELETE FROM events WHERE session = ? AND seq = ?');
  let dropped = 0;
  for (const { bucket, key } of badRecords) dropped += Number(dropRecord.run(bucket, key).changes);
  for (const { session, seq } of badEvents) dropped += Number(dropEvent.run(session, seq).changes);
  const bad = badRecords.length + badEvents.length;
  // A key that is damaged may stand where it is not found by itself.
  if (dropped !== bad) throw new Damaged(`${bad - dropped} rows cannot be found under their keys`);
  return bad;
}

interface RecordRow {
  readonly bucket: string;
  readonly key: string;
  readonly value: Uint8Array;
  readonly sum: number;
}

interface EventRow {
  readonly session: string;
  readonly seq: number;
  readonly stream: string;
  readonly at: number;
  readonly message: Uint8Array;
  readonly sum: number;
}

/** It contains what clients said of themselves and were sent. What SQLite puts beside a file gets the file's rights. */
function keepPrivate(path: string): void {
  closeSync(openSync(path, 'a', 0o600));
  chmodSync(path, 0o600);
}

/** A sum over each row finds a damaged value, which SQLite does not notice (F35). */
export function recordSum(bucket: string, key: string, value: Uint8Array): number {
  return crc32(value, crc32(`${bucket}\0${key}\0`));
}

export function eventSum(session: string, seq: number, stream: string, at: number, message: Uint8Array): number {
  return crc32(message, crc32(`${session}\0${seq}\0${stream}\0${at}\0`));
}

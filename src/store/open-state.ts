import { chmodSync, closeSync, existsSync, openSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { Clock } from '../model/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { setAside } from './set-aside.ts';
import { sqliteCode } from './sqlite-code.ts';

const SCHEMA = [
  'CREATE TABLE records (bucket TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (bucket, key)) WITHOUT ROWID',
  'CREATE TABLE events (session TEXT NOT NULL, seq INTEGER NOT NULL, stream TEXT NOT NULL, at REAL NOT NULL, message BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (session, seq)) WITHOUT ROWID',
] as const;

/** Result codes of SQLite for a damaged file. All others concern the disk or the system, and the file may be good. */
const DAMAGE = new Set([1, 8, 11, 24, 26]);

class Damaged extends Error {}

export interface OpenStateOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Opens `state.db` in any condition (F35): renames a damaged file and begins a new one, deletes damaged rows, and if the disk
 * allows neither, keeps the state in memory until the next start. Logs a warning for each. State is never worth refusing to
 * start, and is never lost silently.
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
  // Without an SQLite code it is `Damaged`, or a value that no column may hold.
  return !('errcode' in error) || DAMAGE.has(sqliteCode(error));
}

function open(path: string, logger: Logger): DatabaseSync {
  if (path !== ':memory:') {
    // An empty file was truncated, or its creation was interrupted.
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
    // Fails if a damaged header says that this version of SQLite may not write.
    db.exec("DELETE FROM records WHERE bucket = ''");
    if (lost > 0) logger.warn('state_rows_lost', { file: path, rows: lost, reason: 'their contents were damaged' });
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Throws for other tables, with which every statement would fail or a second set of tables would begin. */
function makeTables(db: DatabaseSync): void {
  const found = db.prepare('SELECT sql FROM sqlite_schema').all() as { sql: string | null }[];
  if (found.length === 0) for (const table of SCHEMA) db.exec(table);
  else if (found.length !== SCHEMA.length || !SCHEMA.every((table) => found.some(({ sql }) => sql === table))) {
    throw new Damaged('the tables are not those of this version');
  }
}

/** Reads every row, so that unreadable ones are found now and not during a request. */
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
  // A damaged key may be in the wrong place of the index.
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

/** The file contains what clients declare and receive. SQLite gives the files beside it the same permissions. */
function keepPrivate(path: string): void {
  closeSync(openSync(path, 'a', 0o600));
  chmodSync(path, 0o600);
}

/** A checksum over each row finds a damaged value, which SQLite does not notice (F35). */
export function recordSum(bucket: string, key: string, value: Uint8Array): number {
  return crc32(value, crc32(`${bucket}\0${key}\0`));
}

export function eventSum(session: string, seq: number, stream: string, at: number, message: Uint8Array): number {
  return crc32(message, crc32(`${session}\0${seq}\0${stream}\0${at}\0`));
}

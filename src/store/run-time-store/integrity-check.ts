import type { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { StoreError, type StoreRecord, type StoreWrite } from './run-time-store.ts';

/**
 * Migrations of `truth.db`: step n makes version n + 1. A released step never changes; new data gets a collection of its own
 * and needs no step.
 */
export const MIGRATIONS: readonly string[] = [
  // `whole` summarises all records, so that a missing record is detected as well as a changed one.
  `CREATE TABLE records (collection TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, revision INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (collection, key)) WITHOUT ROWID;
   CREATE TABLE whole (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, count INTEGER NOT NULL, tally INTEGER NOT NULL, sum INTEGER NOT NULL);
   INSERT INTO whole VALUES (1, 0, 0, 0, ${2_877_003_366});`,
];

/** Migrates the file to the newest version in one transaction. Throws UnknownVersion for a newer file. */
export function migrate(db: DatabaseSync): void {
  const version = versionOf(db);
  if (version > MIGRATIONS.length) {
    throw new UnknownVersion(`it has version ${version}; this Trunkline knows up to ${MIGRATIONS.length}`);
  }
  if (version === MIGRATIONS.length) return;
  db.exec('BEGIN IMMEDIATE');
  try {
    // Read again under the lock: another process may have migrated meanwhile.
    for (const step of MIGRATIONS.slice(versionOf(db))) db.exec(step);
    db.exec(`PRAGMA user_version = ${MIGRATIONS.length}; COMMIT`);
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

export function versionOf(db: DatabaseSync): number {
  return (db.prepare('PRAGMA user_version').get() as { user_version: number }).user_version;
}

export class UnknownVersion extends Error {}

/** Number of records per step of a check that must not block. */
const SLICE = 500;

/** Summary of all records, updated by every change and checked when the file is opened. */
export interface StoreSummary {
  readonly revision: number;
  readonly count: number;
  /** The checksums of all records, combined independently of their order. */
  readonly tally: number;
}

export interface StoredRow {
  readonly collection: string;
  readonly key: string;
  readonly value: string;
  readonly revision: number;
  readonly sum: number;
}

/** A checksum over each row finds a damaged value, which the database does not notice (F35). */
function storedRowSum(collection: string, key: string, value: string, revision: number): number {
  return crc32(value, crc32(`${collection}\0${key}\0${revision}\0`));
}

export function summaryChecksum({ revision, count, tally }: StoreSummary): number {
  return storedRowSum('', '', `${count} ${tally}`, revision);
}

/** Adds a record to `tally`, or removes it. */
function tallied(tally: number, sum: number): number {
  return (tally ^ sum) >>> 0;
}

/** Throws StoreError if the summary is damaged. */
export function readSummary(db: DatabaseSync): StoreSummary {
  const row = db.prepare('SELECT revision, count, tally, sum FROM whole WHERE id = 1').get() as
    | (StoreSummary & { readonly sum: number })
    | undefined;
  if (row === undefined || row.sum !== summaryChecksum(row)) throw damaged('its summary record is damaged');
  return row;
}

/** The columns of a record in both databases. */
export const COLUMNS = 'collection, key, value, revision, sum';

/** Throws StoreError if the row is damaged. */
export function recordOf(row: StoredRow): StoreRecord {
  const { key, value, revision } = verifiedRow(row);
  return { key, value, revision };
}

export function verifiedRow(row: StoredRow): StoredRow {
  const { collection, key, value, revision, sum } = row;
  if (typeof value !== 'string' || sum !== storedRowSum(collection, key, value, revision)) {
    throw damaged(`the record ${key} of ${collection} is damaged`);
  }
  return row;
}

/** Checks every page and every record of an open, migrated file in one transaction. Throws StoreError. */
export function checkIntegrity(db: DatabaseSync): StoreSummary {
  return inReadTransaction(db, () => {
    const steps = integrityCheckSteps(db);
    for (let step = steps.next(); ; step = steps.next()) if (step.done === true) return step.value;
  });
}

/** As `checkIntegrity`, for a file that only this code has open; yields between slices of records. */
export async function checkIntegrityInSlices(db: DatabaseSync): Promise<void> {
  for (const _ of integrityCheckSteps(db)) await new Promise((next) => setImmediate(next));
}

/** Reads in one transaction, because another process may change the file meanwhile. */
export function inReadTransaction<T>(db: DatabaseSync, read: () => T): T {
  db.exec('BEGIN');
  try {
    return read();
  } finally {
    if (db.isTransaction) db.exec('COMMIT');
  }
}

/** Yields after each slice of records. */
function* integrityCheckSteps(db: DatabaseSync): Generator<undefined, StoreSummary> {
  const check = db.prepare('PRAGMA quick_check(1)').get() as { quick_check: string };
  if (check.quick_check !== 'ok') throw damaged(check.quick_check);
  const summary = readSummary(db);
  let count = 0;
  let tally = 0;
  for (const row of db.prepare(`SELECT ${COLUMNS} FROM records`).iterate()) {
    const record = verifiedRow(row as unknown as StoredRow);
    if (record.revision > summary.revision) throw damaged(`the record ${record.key} is newer than the file`);
    tally = tallied(tally, record.sum);
    if (++count % SLICE === 0) yield;
  }
  if (count !== summary.count || tally !== summary.tally) {
    throw damaged(`it has ${count} records, and not the ${summary.count} that were written`);
  }
  const tables = db.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE type = 'table'").get() as { n: number };
  const wanted = MIGRATIONS.join('\n').match(/CREATE TABLE/g)!.length;
  if (tables.n !== wanted) throw damaged('its tables are not those of this version');
  return summary;
}

export function damaged(detail: string, cause?: unknown): StoreError {
  return new StoreError('damaged', detail, cause);
}

/** The rows that a change puts and drops, for either database. */
type ChangePlan =
  | {
      readonly ok: true;
      readonly summary: StoreSummary | null;
      readonly puts: readonly StoredRow[];
      readonly drops: readonly StoredRow[];
    }
  | { readonly ok: false; readonly write: StoreWrite; readonly found: number | null };

/**
 * Plans a change from the summary and the affected rows. Later writes see earlier ones; a write that does not find its
 * expected revision rejects the whole change.
 */
export function planChange(
  before: StoreSummary,
  found: readonly StoredRow[],
  writes: readonly StoreWrite[],
): ChangePlan {
  const rows = new Map<string, StoredRow>(found.map((row) => [idOf(row), row]));
  const now = new Map(rows);
  const revision = before.revision + 1;
  let changed = false;
  for (const write of writes) {
    const { collection, key } = write;
    const id = idOf(write);
    const row = now.get(id);
    const seen = row?.revision ?? null;
    if (write.expected !== undefined && write.expected !== seen) return { ok: false, write, found: seen };
    if (write.kind === 'delete' && row === undefined) continue;
    changed = true;
    if (write.kind === 'delete') now.delete(id);
    else {
      const { value } = write;
      now.set(id, { collection, key, value, revision, sum: storedRowSum(collection, key, value, revision) });
    }
  }
  const puts = [...now.values()].filter((row) => row.revision === revision);
  const drops = [...rows].filter(([id]) => !now.has(id)).map(([, row]) => row);
  if (!changed) return { ok: true, summary: null, puts, drops };
  let { tally } = before;
  for (const row of rows.values()) tally = tallied(tally, row.sum);
  for (const row of now.values()) tally = tallied(tally, row.sum);
  return { ok: true, summary: { revision, count: before.count + now.size - rows.size, tally }, puts, drops };
}

function idOf({ collection, key }: { readonly collection: string; readonly key: string }): string {
  return `${collection}\0${key}`;
}

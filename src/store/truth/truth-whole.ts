import type { DatabaseSync } from 'node:sqlite';
import { truthSum } from '../row-sum.ts';
import { TruthError } from './truth.ts';
import { MIGRATIONS } from './truth-migrations.ts';

/** Records looked at in one go, where others wait. */
const SLICE = 500;

/** What all records together are: kept beside them in every change, and compared when the file is opened. */
export interface Whole {
  readonly revision: number;
  readonly count: number;
  /** The sums of all records, combined so that their order does not count. */
  readonly tally: number;
}

/** A record as its row holds it. */
export interface TruthRow {
  readonly collection: string;
  readonly key: string;
  readonly value: string;
  readonly revision: number;
  readonly sum: number;
}

export function wholeSum({ revision, count, tally }: Whole): number {
  return truthSum('', '', `${count} ${tally}`, revision);
}

/** `tally` with a record put in, or taken out again. */
export function tallied(tally: number, sum: number): number {
  return (tally ^ sum) >>> 0;
}

/** Throws TruthError where it is not as it was written. */
export function readWhole(db: DatabaseSync): Whole {
  const row = db.prepare('SELECT revision, count, tally, sum FROM whole WHERE id = 1').get() as
    | (Whole & { readonly sum: number })
    | undefined;
  if (row === undefined || row.sum !== wholeSum(row)) throw damaged('what it says of all its records is damaged');
  return row;
}

/** Throws TruthError for a row that is not as it was written. */
export function believed(row: TruthRow): TruthRow {
  const { collection, key, value, revision, sum } = row;
  if (typeof value !== 'string' || sum !== truthSum(collection, key, value, revision)) {
    throw damaged(`the record ${key} of ${collection} is damaged`);
  }
  return row;
}

/** Looks at every page and every record of an open file of the newest version, at one instant. Throws TruthError. */
export function checkWhole(db: DatabaseSync): Whole {
  return atOneInstant(db, () => {
    const steps = checkedWhole(db);
    for (;;) {
      const { done, value } = steps.next();
      if (done === true) return value;
    }
  });
}

/** The same of a file that nobody else has, a few records at a time: what runs beside it is not held up. */
export async function checkWholeInSlices(db: DatabaseSync): Promise<Whole> {
  const steps = checkedWhole(db);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    await new Promise((next) => setImmediate(next));
  }
}

/** Another process may change the file meanwhile: what is read in here belongs together all the same. */
export function atOneInstant<T>(db: DatabaseSync, read: () => T): T {
  db.exec('BEGIN');
  try {
    return read();
  } finally {
    if (db.isTransaction) db.exec('COMMIT');
  }
}

/** Yields after every slice of records. */
function* checkedWhole(db: DatabaseSync): Generator<undefined, Whole> {
  const check = db.prepare('PRAGMA quick_check(1)').get() as { quick_check: string };
  if (check.quick_check !== 'ok') throw damaged(check.quick_check);
  const whole = readWhole(db);
  let count = 0;
  let tally = 0;
  for (const row of db.prepare('SELECT collection, key, value, revision, sum FROM records').iterate()) {
    const record = believed(row as unknown as TruthRow);
    if (record.revision > whole.revision) throw damaged(`the record ${record.key} is newer than the file`);
    tally = tallied(tally, record.sum);
    if (++count % SLICE === 0) yield;
  }
  if (count !== whole.count || tally !== whole.tally) {
    throw damaged(`it has ${count} records, and not the ${whole.count} that were written`);
  }
  const tables = db.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE type = 'table'").get() as { n: number };
  const wanted = MIGRATIONS.join('\n').match(/CREATE TABLE/g)!.length;
  if (tables.n !== wanted) throw damaged('its tables are not those of this version');
  return whole;
}

export function damaged(detail: string, cause?: unknown): TruthError {
  return new TruthError('damaged', detail, cause);
}

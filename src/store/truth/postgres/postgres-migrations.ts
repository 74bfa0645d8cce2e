import type { ClientBase } from 'pg';
import { type Whole, wholeSum } from '../truth-whole.ts';

const NOTHING: Whole = { revision: 0, count: 0, tally: 0 };
/** Class of our advisory locks: "TL". */
const LOCK = 0x544c;

/**
 * The shape of the tables, step by step: step n makes version n + 1 of what version n left. A step that was released is
 * never changed; a new shape is a new step at the end. Keys are compared by their bytes, as in SQLite.
 */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE records (collection text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, value text NOT NULL, revision bigint NOT NULL, sum bigint NOT NULL, PRIMARY KEY (collection, key));
   CREATE TABLE whole (id int PRIMARY KEY CHECK (id = 1), revision bigint NOT NULL, count bigint NOT NULL, tally bigint NOT NULL, sum bigint NOT NULL);
   INSERT INTO whole VALUES (1, 0, 0, 0, ${wholeSum(NOTHING)});`,
];

/**
 * Brings the schema to the newest version in one transaction; nodes that do it at the same time wait for each other.
 * Resolves with null, or with the version where it is of one that is not known here.
 */
export async function migrate(connection: ClientBase, schema: string): Promise<number | null> {
  const versions = `${quoted(schema)}.version`;
  await connection.query('BEGIN');
  await connection.query(`SELECT pg_advisory_xact_lock(${LOCK}, hashtext($1))`, [schema]);
  const there = await connection.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
  if (there.rowCount === 0) await connection.query(`CREATE SCHEMA ${quoted(schema)}`);
  await connection.query(`SET LOCAL search_path TO ${quoted(schema)}`);
  await connection.query(`CREATE TABLE IF NOT EXISTS ${versions} (version int PRIMARY KEY)`);
  const found = await connection.query(`SELECT coalesce(max(version), 0) AS version FROM ${versions}`);
  const version = Number(found.rows[0].version);
  if (version > MIGRATIONS.length) {
    await connection.query('ROLLBACK');
    return version;
  }
  for (let next = version; next < MIGRATIONS.length; next++) {
    await connection.query(MIGRATIONS[next]!);
    await connection.query(`INSERT INTO ${versions} VALUES ($1)`, [next + 1]);
  }
  await connection.query('COMMIT');
  return null;
}

/** A name as SQL has it. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

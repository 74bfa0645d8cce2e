import type { ClientBase, Pool, PoolClient } from 'pg';
import { type Clock, withTimeout } from '../../../model/clock.ts';
import { type StoreSummary, summaryChecksum } from '../integrity-check.ts';
import { StoreError } from '../run-time-store.ts';

const NOTHING: StoreSummary = { revision: 0, count: 0, tally: 0 };
/** Class of the gateway's advisory locks: "TL". */
const LOCK = 0x544c;

/** Migrations: step n makes version n + 1; a released step never changes. Keys compare by bytes. */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE records (collection text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, value text NOT NULL, revision bigint NOT NULL, sum bigint NOT NULL, PRIMARY KEY (collection, key));
   CREATE TABLE whole (id int PRIMARY KEY CHECK (id = 1), revision bigint NOT NULL, count bigint NOT NULL, tally bigint NOT NULL, sum bigint NOT NULL);
   INSERT INTO whole VALUES (1, 0, 0, 0, ${summaryChecksum(NOTHING)});`,
];

/** Migrates in one transaction; concurrent nodes wait. Resolves with null, or with the unknown version of newer tables. */
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

/** Quotes an SQL identifier. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** `pg_xact_status`, which returns the outcome of a transaction, is of version 10; its argument type `xid8` is of 13. */
const OLDEST = 130_000;
const MOST_CONNECTIONS = 4;
const CONNECT_MS = 5_000;
const IDLE_MS = 60_000;
const STATEMENT_MS = 10_000;
/** A node that stops within a transaction blocks those of all others; after this time the server aborts the transaction. */
const IDLE_IN_TRANSACTION_MS = 3_000;
/** Limit of one unit of work including the connection; longer than the server's own limit of a statement. */
const WORK_MS = 15_000;

export interface PostgresOptions {
  /** `postgresql://user:password@host:port/database?sslmode=…` */
  readonly url: string;
  /** The schema of the tables; created if it is missing. */
  readonly schema: string;
  readonly clock: Clock;
}

/** Connections to a migrated database, opened on demand and again after a failure: each caller tries again. */
export class PostgresPool {
  readonly #options: PostgresOptions;
  #opening: Promise<Pool> | null = null;
  #closed = false;

  constructor(options: PostgresOptions) {
    this.#options = options;
  }

  /** Runs `work` with a connection of its own, for at most 15 s. Rejects with the error. */
  async with<T>(work: (connection: PoolClient) => Promise<T>): Promise<T> {
    if (this.#closed) throw new StoreError('unavailable', 'the store of run-time changes is closed');
    const opening = (this.#opening ??= this.#open());
    return withTimeout(this.#options.clock, WORK_MS, this.#work(opening, work), () => {
      this.#forget(opening);
      throw new StoreError('unavailable', `the database did not answer within ${WORK_MS / 1_000} s`);
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    const opening = this.#opening;
    this.#opening = null;
    await opening?.then(
      (pool) => pool.end(),
      () => {},
    );
  }

  async #work<T>(opening: Promise<Pool>, work: (connection: PoolClient) => Promise<T>): Promise<T> {
    let pool: Pool;
    try {
      pool = await opening;
    } catch (error) {
      this.#forget(opening);
      throw error;
    }
    return withClient(pool, work);
  }

  /** Drops a pool whose connections are unusable: the next caller opens another. */
  #forget(opening: Promise<Pool>): void {
    if (this.#opening === opening) this.#opening = null;
    opening.then(
      (pool) => void pool.end().catch(() => {}),
      () => {},
    );
  }

  async #open(): Promise<Pool> {
    const { url, schema } = this.#options;
    const { default: pg } = await import('pg');
    const pool = new pg.Pool({
      connectionString: url,
      max: MOST_CONNECTIONS,
      connectionTimeoutMillis: CONNECT_MS,
      idleTimeoutMillis: IDLE_MS,
      keepAlive: true,
      application_name: 'trunkline',
      options: `-c search_path=${schema}`,
      statement_timeout: STATEMENT_MS,
      query_timeout: WORK_MS,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    });
    // Errors of an idle connection: the pool drops it. Errors of others reach their callers.
    pool.on('error', ignore);
    try {
      await withClient(pool, (connection) => this.#prepare(connection));
      return pool;
    } catch (error) {
      void pool.end().catch(() => {});
      throw error;
    }
  }

  async #prepare(connection: PoolClient): Promise<void> {
    const { schema } = this.#options;
    const { rows } = await connection.query('SHOW server_version_num');
    if (Number(rows[0].server_version_num) < OLDEST) {
      throw new StoreError('unavailable', 'the database is older than PostgreSQL 13; use a newer one');
    }
    const version = await migrate(connection, schema);
    if (version === null) return;
    throw new StoreError(
      'unavailable',
      `its tables have version ${version}, and this Trunkline knows up to ${MIGRATIONS.length}; run the newer one`,
    );
  }
}

/** Runs `work` with a connection of the pool. A connection on which it failed is not reused. */
async function withClient<T>(pool: Pool, work: (connection: PoolClient) => Promise<T>): Promise<T> {
  const connection = await pool.connect();
  // The running statement rejects; this event comes in addition.
  connection.on('error', ignore);
  let failed = true;
  try {
    const done = await work(connection);
    failed = false;
    return done;
  } finally {
    connection.removeListener('error', ignore);
    connection.release(failed);
  }
}

function ignore(): void {}

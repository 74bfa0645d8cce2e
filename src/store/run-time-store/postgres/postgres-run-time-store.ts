import type { ClientBase } from 'pg';
import {
  COLUMNS,
  damaged,
  planChange,
  recordOf,
  type StoredRow,
  type StoreSummary,
  summaryChecksum,
  verifiedRow,
} from '../integrity-check.ts';
import {
  type Applied,
  checkBounds,
  LIST_LIMIT,
  type ListOptions,
  type RunTimeStore,
  StoreError,
  type StoreFault,
  type StoreRecord,
  type StoreSnapshot,
  type StoreWrite,
} from '../run-time-store.ts';
import { type PostgresOptions, PostgresPool } from './postgres-pool.ts';

/** A row as the driver returns it: PostgreSQL's 64-bit numbers are text. */
type Row = Readonly<Record<string, string>>;

/** `$1` and `$2` are the collections and the keys of the records. */
const OF_KEYS = '(collection, key) IN (SELECT * FROM unnest($1::text[], $2::text[]))';

/**
 * The durable store of a cluster, in PostgreSQL: every node sees what another has acknowledged. A lock on the summary row
 * serialises the changes of all nodes.
 *
 * If a connection breaks during a commit, the outcome is open: the store then queries the database, and only if that fails too
 * reports `unknown`.
 */
export class PostgresRunTimeStore implements RunTimeStore {
  readonly #pool: PostgresPool;
  readonly #where: string;

  constructor(options: PostgresOptions) {
    this.#pool = new PostgresPool(options);
    this.#where = databaseLocation(options.url);
  }

  async read(collections: readonly string[]): Promise<StoreSnapshot> {
    return this.#run(async (connection) => {
      await connection.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
      const { revision } = await readSummary(connection, '');
      const records = new Map(collections.map((collection) => [collection, new Map<string, StoreRecord>()]));
      for (let after: readonly [string, string] | null = ['', '']; after !== null; ) {
        // The transaction makes all pages show the same instant.
        const found = await connection.query<Row>(
          `SELECT ${COLUMNS} FROM records WHERE collection = ANY($1::text[]) AND (collection, key) > ($2, $3) ORDER BY collection, key LIMIT $4`,
          [[...collections], ...after, LIST_LIMIT],
        );
        const rows: readonly Row[] = found.rows;
        for (const row of rows) records.get(row['collection']!)!.set(row['key']!, record(row));
        const last = rows.length < LIST_LIMIT ? undefined : rows.at(-1);
        after = last === undefined ? null : [last['collection']!, last['key']!];
      }
      await connection.query('COMMIT');
      return { revision, records };
    });
  }

  async list(collection: string, options: ListOptions = {}): Promise<readonly StoreRecord[]> {
    const { prefix = '', after = '', limit = LIST_LIMIT } = options;
    return this.#run(async (connection) => {
      const where = 'collection = $1 AND key >= $2 AND key > $3 AND starts_with(key, $2)';
      const { rows } = await connection.query<Row>(
        `SELECT ${COLUMNS} FROM records WHERE ${where} ORDER BY key LIMIT $4`,
        [collection, prefix, after, limit],
      );
      return rows.map(record);
    });
  }

  async apply(writes: readonly StoreWrite[]): Promise<Applied> {
    checkBounds(writes);
    let committing: string | null = null;
    let abandoned = false;
    try {
      return await this.#pool.with((connection) =>
        change(connection, writes, (id) => {
          // Too late: the caller already got the answer that nothing was changed.
          if (abandoned) throw new StoreError('unavailable', 'the change was given up');
          committing = id;
        }),
      );
    } catch (error) {
      abandoned = true;
      if (committing === null || isServerError(error)) throw this.#translated(error);
      return await this.#resolveOutcome(committing, error);
    }
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  async #run<T>(work: (connection: ClientBase) => Promise<T>): Promise<T> {
    try {
      return await this.#pool.with(work);
    } catch (error) {
      throw this.#translated(error);
    }
  }

  /** The outcome of a change whose COMMIT was not answered. `id`: its transaction id and the revision that it made. */
  async #resolveOutcome(id: string, cause: unknown): Promise<Applied> {
    const [transaction, revision] = id.split(' ') as [string, string];
    let status: string | null = null;
    try {
      const { rows } = await this.#pool.with((connection) =>
        connection.query<Row>('SELECT pg_xact_status($1::text::xid8) AS status', [transaction]),
      );
      status = rows[0]?.['status'] ?? null;
    } catch {}
    if (status === 'committed') return { ok: true, revision: Number(revision) };
    if (status === 'aborted') throw this.#translated(cause);
    const words = 'the connection broke while the change was being made; whether it was is not known';
    throw new StoreError('unknown', `${this.#where}: ${words}. Check whether it was made before repeating it`, cause);
  }

  #translated(error: unknown): Error {
    if (error instanceof RangeError) return error;
    if (error instanceof StoreError) return new StoreError(error.fault, `${this.#where}: ${error.message}`, error);
    const message = error instanceof Error ? error.message || String((error as { code?: string }).code) : String(error);
    return new StoreError(faultOf(error), `${this.#where}: ${message}`, error);
  }
}

async function change(
  connection: ClientBase,
  writes: readonly StoreWrite[],
  committing: (id: string) => void,
): Promise<Applied> {
  await connection.query('BEGIN');
  const before = await readSummary(connection, 'FOR UPDATE');
  const { rows: found } = await connection.query<Row>(
    `SELECT ${COLUMNS} FROM records WHERE ${OF_KEYS}`,
    keysOf(writes),
  );
  const plan = planChange(before, found.map(storedRow).map(verifiedRow), writes);
  if (!plan.ok || plan.summary === null) {
    await connection.query('ROLLBACK');
    return plan.ok ? { ok: true, revision: before.revision } : plan;
  }
  const { summary, puts, drops } = plan;
  if (drops.length > 0) await connection.query(`DELETE FROM records WHERE ${OF_KEYS}`, keysOf(drops));
  if (puts.length > 0) {
    await connection.query(
      `INSERT INTO records (${COLUMNS}) SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) ON CONFLICT (collection, key) DO UPDATE SET value = excluded.value, revision = excluded.revision, sum = excluded.sum`,
      [
        ...keysOf(puts),
        puts.map(({ value }) => value),
        puts.map(({ revision }) => String(revision)),
        puts.map(({ sum }) => String(sum)),
      ],
    );
  }
  const { rows } = await connection.query<Row>(
    'UPDATE whole SET revision = $1, count = $2, tally = $3, sum = $4 WHERE id = 1 RETURNING pg_current_xact_id()::text AS id',
    [summary.revision, summary.count, summary.tally, summaryChecksum(summary)].map(String),
  );
  committing(`${rows[0]!['id']} ${summary.revision}`);
  await connection.query('COMMIT');
  return { ok: true, revision: summary.revision };
}

async function readSummary(connection: ClientBase, lock: '' | 'FOR UPDATE'): Promise<StoreSummary> {
  const { rows } = await connection.query<Row>(`SELECT revision, count, tally, sum FROM whole WHERE id = 1 ${lock}`);
  const row = rows[0];
  if (row === undefined) throw damaged('its summary record is missing');
  const summary = { revision: Number(row['revision']), count: Number(row['count']), tally: Number(row['tally']) };
  if (Number(row['sum']) !== summaryChecksum(summary)) throw damaged('its summary record is damaged');
  return summary;
}

function storedRow(row: Row): StoredRow {
  const { collection, key, value, revision, sum } = row as Readonly<Record<keyof StoredRow, string>>;
  return { collection, key, value, revision: Number(revision), sum: Number(sum) };
}

function record(row: Row): StoreRecord {
  return recordOf(storedRow(row));
}

function keysOf(records: readonly { readonly collection: string; readonly key: string }[]): string[][] {
  return [records.map(({ collection }) => collection), records.map(({ key }) => key)];
}

/** The server rejected a statement and the session continues: nothing was committed. */
function isServerError(error: unknown): boolean {
  return error instanceof Error && 'severity' in error && error.severity === 'ERROR';
}

function faultOf(error: unknown): StoreFault {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === '53100') return 'full';
  return code === 'XX001' || code === 'XX002' ? 'damaged' : 'unavailable';
}

/** Host and database, without user and password. */
export function databaseLocation(url: string): string {
  if (!URL.canParse(url)) return 'PostgreSQL';
  const { host, pathname } = new URL(url);
  return `PostgreSQL at ${host}${pathname}`;
}

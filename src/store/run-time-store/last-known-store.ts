import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { Logger } from '../../telemetry/logger.ts';
import {
  type Applied,
  LIST_LIMIT,
  type ListOptions,
  type RunTimeStore,
  StoreError,
  type StoreRecord,
  type StoreSnapshot,
  type StoreWrite,
} from './run-time-store.ts';

interface LastKnownOptions {
  readonly store: RunTimeStore;
  /** Identifies the store, without credentials: the copy of another store is not used. */
  readonly place: string;
  /** Null if there is no folder for a copy. */
  readonly path: string | null;
  /** Without the store and without a copy, begin with no records. */
  readonly mayStartEmpty?: boolean;
  /** The collections in the copy. Histories are not copied. */
  readonly collections: readonly string[];
  /** Keep the copy up to date; otherwise only read it. */
  readonly updatesCopy: boolean;
  readonly logger: Logger;
}

/**
 * A shared store with a copy of its records in a file, so that a node can start while the store is unreachable. Until the store
 * answers for the first time, reads use the copy; writes always go to the store. `read([])` always queries the store. The
 * copy contains the records as stored, including their seals.
 */
export class LastKnownStore implements RunTimeStore {
  readonly #options: LastKnownOptions;
  #reached = false;
  #copy: StoreSnapshot | null = null;
  /** Revision of the copy in the file. */
  #kept = -1;
  #keeping: Promise<void> | null = null;
  #warned = false;

  constructor(options: LastKnownOptions) {
    this.#options = options;
  }

  async read(collections: readonly string[]): Promise<StoreSnapshot> {
    const { store } = this.#options;
    if (this.#copy !== null && collections.length > 0) return taken(this.#copy, collections);
    try {
      const snapshot = await store.read(collections);
      await this.#answered(snapshot.revision);
      return snapshot;
    } catch (error) {
      if (collections.length === 0) throw error;
      return taken(this.#fallbackCopy(error), collections);
    }
  }

  async list(collection: string, options: ListOptions = {}): Promise<readonly StoreRecord[]> {
    if (this.#copy !== null) return page(this.#copy, collection, options);
    try {
      return await this.#options.store.list(collection, options);
    } catch (error) {
      return page(this.#fallbackCopy(error), collection, options);
    }
  }

  apply(writes: readonly StoreWrite[]): Promise<Applied> {
    return this.#options.store.apply(writes);
  }

  async close(): Promise<void> {
    await this.#keeping;
    await this.#options.store.close();
  }

  async #answered(revision: number): Promise<void> {
    this.#reached = true;
    this.#copy = null;
    if (!this.#options.updatesCopy || this.#options.path === null || revision === this.#kept) return;
    this.#keeping ??= this.#keep().finally(() => {
      this.#keeping = null;
    });
    await this.#keeping;
  }

  /** Never rejects: if it fails, the previous copy stays. */
  async #keep(): Promise<void> {
    const { store, place, path, collections, logger } = this.#options;
    try {
      const { revision, records } = await store.read(collections);
      const all = Array.from(records, ([name, some]) => [name, [...some.values()]] as const);
      const text = JSON.stringify({ place, revision, records: all });
      writeFileSync(`${path}.${process.pid}.new`, `${digest(text)}\n${text}`, { mode: 0o600 });
      renameSync(`${path}.${process.pid}.new`, path!);
      this.#kept = revision;
      this.#warned = false;
    } catch (error) {
      if (!this.#warned) logger.warn('store_copy_not_kept', { file: path, error });
      this.#warned = true;
    }
  }

  /** The copy, if this process has not reached the database yet; otherwise throws, and callers keep what they read before. */
  #fallbackCopy(error: unknown): StoreSnapshot {
    if (this.#reached || !(error instanceof StoreError) || error.fault !== 'unavailable') throw error;
    this.#copy ??= this.#load(error);
    return this.#copy;
  }

  #load(cause: StoreError): StoreSnapshot {
    const { path, place, mayStartEmpty = false, collections, logger } = this.#options;
    const kept = copyIn(path, place);
    const reason = cause.message;
    if (typeof kept !== 'string') {
      logger.error('store_not_reached', { reason, effect: 'this node starts with what it last knew', file: path });
      return kept;
    }
    if (!mayStartEmpty) throw new StoreError('unavailable', `${reason}; ${kept}`, cause);
    logger.error('store_not_reached', { reason, effect: `this node starts without changes made at run time: ${kept}` });
    return { revision: 0, records: new Map(collections.map((name) => [name, new Map()])) };
  }
}

/** The copy in the file, or why it cannot be used. */
export function copyIn(path: string | null, place: string): StoreSnapshot | string {
  let text: string;
  try {
    text = readFileSync(path ?? '', 'utf8');
  } catch {
    return 'this node has no copy of it from before';
  }
  const [sum, body = ''] = text.split('\n', 2);
  if (sum !== digest(body)) return `${path} is damaged`;
  const kept = JSON.parse(body) as { place: string; revision: number; records: [string, StoreRecord[]][] };
  if (kept.place !== place) return `${path} is a copy of ${kept.place}`;
  const records = new Map(
    kept.records.map(([name, some]) => [name, new Map(some.map((record) => [record.key, record]))]),
  );
  return { revision: kept.revision, records };
}

function of({ records }: StoreSnapshot, collection: string): ReadonlyMap<string, StoreRecord> {
  const found = records.get(collection);
  if (found === undefined) throw new StoreError('unavailable', `the copy of the store has no ${collection}`);
  return found;
}

function taken(copy: StoreSnapshot, collections: readonly string[]): StoreSnapshot {
  return { revision: copy.revision, records: new Map(collections.map((name) => [name, of(copy, name)])) };
}

function page(copy: StoreSnapshot, collection: string, options: ListOptions): readonly StoreRecord[] {
  const { prefix = '', after = '', limit = LIST_LIMIT } = options;
  const found = [...of(copy, collection).values()].filter(({ key }) => key.startsWith(prefix) && key > after);
  return found.sort((a, b) => (a.key < b.key ? -1 : 1)).slice(0, limit);
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

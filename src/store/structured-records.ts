import { deserialize, serialize } from 'node:v8';
import type { KnownCatalogs, TaskRecord, TaskRecords } from '../model/ports.ts';
import type { HandshakeResult, ServerCatalog } from '../model/server-catalog.ts';
import type { StateFile } from './state-file.ts';

/*
 * Records in V8's serialisation format, because what servers wrote may be any bytes. A format number increases when the shape
 * of its record, or what may be in it, changes; older records are then deleted.
 */

const CATALOGS = { bucket: 'catalog', format: 4 };
const TASKS = { bucket: 'task', format: 1 };
/** Maximum number of stored catalogues per server: its definition and its kinds of client may change without end. */
const MAX_OF_SERVER = 128;

/** The handshake result is stored under the name `hello`. */
type StoredCatalog = {
  readonly format: number;
  readonly identity: string;
  readonly catalog: Omit<ServerCatalog, 'handshake'> & { readonly hello: HandshakeResult };
};
type StoredTask = { readonly format: number; readonly record: TaskRecord };

export class SqliteKnownCatalogs implements KnownCatalogs {
  readonly #state: StateFile;
  /** Keys by server, least recently saved first. */
  readonly #keys = new Map<string, Set<string>>();

  constructor(state: StateFile) {
    this.#state = state;
  }

  *load(server?: string, identity = ''): Iterable<ServerCatalog & { readonly identity: string }> {
    const prefix = server === undefined ? '' : `${server}\n${identity}`;
    for (const [key, catalog] of this.#state.readAll(CATALOGS.bucket, catalogIn, prefix)) {
      this.#note(catalog.server, key);
      yield catalog;
    }
  }

  save(identity: string, catalog: ServerCatalog): void {
    const { handshake: hello, ...rest } = catalog;
    const value: StoredCatalog = { format: CATALOGS.format, identity, catalog: { ...rest, hello } };
    const key = `${catalog.server}\n${identity}\n${catalog.fingerprint}`;
    this.#state.put(CATALOGS.bucket, key, serialize(value));
    this.#keys.get(catalog.server)?.delete(key);
    this.#note(catalog.server, key);
  }

  forget(server: string): void {
    this.#keys.delete(server);
    for (const key of this.#state.all(CATALOGS.bucket, `${server}\n`).keys()) this.#state.delete(CATALOGS.bucket, key);
  }

  #note(server: string, key: string): void {
    const keys = this.#keys.get(server) ?? new Set();
    this.#keys.set(server, keys.add(key));
    if (keys.size <= MAX_OF_SERVER) return;
    const oldest = keys.values().next().value!;
    keys.delete(oldest);
    this.#state.delete(CATALOGS.bucket, oldest);
  }
}

export class SqliteTaskRecords implements TaskRecords {
  readonly #state: StateFile;
  readonly #known = new Set<string>();

  constructor(state: StateFile) {
    this.#state = state;
  }

  *load(): Iterable<TaskRecord> {
    for (const [key, task] of this.#state.readAll(TASKS.bucket, taskIn)) {
      this.#known.add(key);
      yield task;
    }
  }

  /** A new task is durable before its client gets the id (SEP-2663 §Task Creation). */
  put(record: TaskRecord): void {
    const value: StoredTask = { format: TASKS.format, record };
    this.#state.put(TASKS.bucket, record.key, serialize(value));
    if (this.#known.has(record.key)) return;
    this.#known.add(record.key);
    this.#state.flush();
  }

  delete(key: string): void {
    if (this.#known.delete(key)) this.#state.delete(TASKS.bucket, key);
  }
}

function catalogIn(value: Buffer) {
  const { format, identity, catalog: stored } = deserialize(value) as StoredCatalog;
  const { hello, ...catalog } = stored;
  return format === CATALOGS.format && typeof catalog.server === 'string'
    ? { ...catalog, handshake: hello, identity }
    : null;
}

/** Copies the buffers, because `deserialize` returns views of the whole stored value. */
function taskIn(value: Buffer, key: string): TaskRecord | null {
  const { format, record } = deserialize(value) as StoredTask;
  if (format !== TASKS.format || record.key !== key) return null;
  const answer = record.answer === null ? null : { ...record.answer, body: Buffer.from(record.answer.body) };
  return { ...record, description: Buffer.from(record.description), answer };
}

import { deserialize, serialize } from 'node:v8';
import type { TaskRecord, TaskRecords } from '../model/ports.ts';
import type { StateFile } from './state-file.ts';

const BUCKET = 'task';
/** Raised when the shape of TaskRecord changes; older records are then forgotten. */
const FORMAT = 1;

type Stored = { readonly format: number; readonly record: TaskRecord };

/** Tasks in `state.db`. What servers wrote may be any bytes, so they are kept in V8's structured form. */
export class SqliteTaskRecords implements TaskRecords {
  readonly #state: StateFile;
  readonly #known = new Set<string>();

  constructor(state: StateFile) {
    this.#state = state;
  }

  *load(): Iterable<TaskRecord> {
    for (const [key, value] of this.#state.all(BUCKET)) {
      const record = read(value);
      if (record === null || record.key !== key) {
        this.#state.delete(BUCKET, key);
        continue;
      }
      this.#known.add(key);
      yield record;
    }
  }

  /** A task is durable before its client gets its id (SEP-2663 §Task Creation). */
  put(record: TaskRecord): void {
    const stored: Stored = { format: FORMAT, record };
    this.#state.put(BUCKET, record.key, serialize(stored));
    if (this.#known.has(record.key)) return;
    this.#known.add(record.key);
    this.#state.flush();
  }

  delete(key: string): void {
    if (this.#known.delete(key)) this.#state.delete(BUCKET, key);
  }
}

/** Buffers come back as plain byte arrays. */
function read(value: Buffer): TaskRecord | null {
  try {
    const { format, record } = deserialize(value) as Stored;
    if (format !== FORMAT) return null;
    const answer = record.answer === null ? null : { ...record.answer, body: Buffer.from(record.answer.body) };
    return { ...record, description: Buffer.from(record.description), answer };
  } catch {
    return null;
  }
}

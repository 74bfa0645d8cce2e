import type { SessionRecord, SessionRecords } from '../model/ports.ts';
import type { StateFile } from './state-file.ts';
import { storedObject } from './stored-object.ts';

const BUCKET = 'session';

/** Client sessions in `state.db`, one JSON record each. */
export class SqliteSessionRecords implements SessionRecords {
  readonly #state: StateFile;

  constructor(state: StateFile) {
    this.#state = state;
  }

  async get(id: string): Promise<SessionRecord | null> {
    const value = this.#state.get(BUCKET, id);
    return value === null ? null : this.#read(id, value);
  }

  put(record: SessionRecord): void {
    this.#state.put(BUCKET, record.id, Buffer.from(JSON.stringify(record)));
  }

  delete(id: string): void {
    this.#state.delete(BUCKET, id);
  }

  async all(): Promise<readonly SessionRecord[]> {
    const records: SessionRecord[] = [];
    for (const [id, value] of this.#state.all(BUCKET)) {
      const record = this.#read(id, value);
      if (record !== null) records.push(record);
    }
    return records;
  }

  /** A value that is no record is a session lost, and no reason to fail for all others. */
  #read(id: string, value: Buffer): SessionRecord | null {
    const record = storedObject(value) as SessionRecord | null;
    if (record === null || record.id !== id || typeof record.capabilities !== 'string') {
      this.#state.delete(BUCKET, id);
      return null;
    }
    return record;
  }
}

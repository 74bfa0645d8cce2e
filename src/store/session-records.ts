import type { SessionRecord, SessionRecords } from '../model/ports.ts';
import type { StateFile } from './state-file.ts';

const BUCKET = 'session';

/** Client sessions in `state.db`, one JSON record each. */
export class SqliteSessionRecords implements SessionRecords {
  readonly #state: StateFile;

  constructor(state: StateFile) {
    this.#state = state;
  }

  async get(id: string): Promise<SessionRecord | null> {
    const value = this.#state.get(BUCKET, id);
    return value === null ? null : parse(value);
  }

  put(record: SessionRecord): void {
    this.#state.put(BUCKET, record.id, Buffer.from(JSON.stringify(record)));
  }

  delete(id: string): void {
    this.#state.delete(BUCKET, id);
  }

  async all(): Promise<readonly SessionRecord[]> {
    return [...this.#state.all(BUCKET).values()].map(parse);
  }
}

function parse(value: Buffer): SessionRecord {
  return JSON.parse(value.toString()) as SessionRecord;
}

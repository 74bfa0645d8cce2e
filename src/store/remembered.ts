import type {
  EraVerdict,
  EraVerdicts,
  SessionRecord,
  SessionRecords,
  UpstreamSessionRecord,
  UpstreamSessions,
} from '../model/ports.ts';
import type { Sealing } from '../model/sealing.ts';
import type { StateFile } from './state-file.ts';

/** A small bucket held in memory whole, so that look-ups are synchronous; written behind, sealed where there is a key. */
class RememberedTable<V> {
  readonly #state: StateFile;
  readonly #bucket: string;
  readonly #sealing: Sealing | null;
  readonly #values = new Map<string, V>();

  constructor(state: StateFile, bucket: string, sealing: Sealing | null = null) {
    this.#state = state;
    this.#bucket = bucket;
    this.#sealing = sealing;
    for (const [key, value] of state.all(bucket)) {
      const context = `${bucket} ${key}`;
      const text = sealing === null ? value : sealing.open(context, value.toString());
      const stored = text === null ? null : (storedObject(Buffer.from(text)) as V | null);
      if (stored === null) state.delete(bucket, key);
      else {
        this.#values.set(key, stored);
        if (sealing?.outdated?.(context, value.toString()) === true) this.set(key, stored);
      }
    }
  }

  get(key: string): V | null {
    return this.#values.get(key) ?? null;
  }

  set(key: string, value: V): void {
    const isNew = !this.#values.has(key);
    this.#values.set(key, value);
    const bytes = (): Buffer => {
      const text = JSON.stringify(value);
      return Buffer.from(this.#sealing?.seal(`${this.#bucket} ${key}`, text) ?? text);
    };
    // It keeps nothing alive that the table does not.
    this.#state.put(this.#bucket, key, { length: 0, bytes }, isNew);
  }

  forget(key: string): void {
    if (this.#values.delete(key)) this.#state.delete(this.#bucket, key);
  }
}

export class SqliteEraVerdicts extends RememberedTable<EraVerdict> implements EraVerdicts {
  constructor(state: StateFile) {
    super(state, 'era');
  }
}

/** Upstream HTTP sessions in `state.db`, by server and session key; sealed, for their ids are all that it takes to use them. */
export class SqliteUpstreamSessions implements UpstreamSessions {
  readonly #table: RememberedTable<UpstreamSessionRecord>;

  constructor(state: StateFile, sealing: Sealing) {
    this.#table = new RememberedTable(state, 'upstream-session', sealing);
  }

  get(server: string, sessionKey: string): UpstreamSessionRecord | null {
    return this.#table.get(`${server}\n${sessionKey}`);
  }

  put(server: string, sessionKey: string, record: UpstreamSessionRecord): void {
    this.#table.set(`${server}\n${sessionKey}`, record);
  }

  delete(server: string, sessionKey: string): void {
    this.#table.forget(`${server}\n${sessionKey}`);
  }
}

/** The JSON object that was stored; null for anything else. State may be damaged, and is never worth failing for. */
function storedObject(value: Buffer): object | null {
  try {
    const stored: unknown = JSON.parse(value.toString());
    return typeof stored === 'object' ? stored : null;
  } catch {
    return null;
  }
}

const BUCKET = 'session';
/** About the bytes of a record beside what the client says of itself. */
const OTHER_FIELDS = 400;

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

  put(record: SessionRecord, isNew = false): void {
    const length = record.capabilities.length + (record.info?.length ?? 0) + OTHER_FIELDS;
    this.#state.put(BUCKET, record.id, { length, bytes: () => Buffer.from(JSON.stringify(record)) }, isNew);
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

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

const MAX_KEPT = 10_000;

/** A small bucket held completely in memory, for synchronous look-ups; written behind, and sealed if there is a key. */
class WriteBehindTable<V> {
  readonly #state: StateFile;
  readonly #bucket: string;
  readonly #sealing: Sealing | null;
  readonly #values = new Map<string, V>();

  constructor(state: StateFile, bucket: string, sealing: Sealing | null = null) {
    this.#state = state;
    this.#bucket = bucket;
    this.#sealing = sealing;
    const read = (bytes: Buffer, key: string) => {
      const [context, written] = [`${bucket} ${key}`, bytes.toString()];
      const text = sealing === null ? written : sealing.open(context, written);
      const value = text === null ? null : storedObject<V>(text);
      return value === null ? null : { value, outdated: sealing?.outdated?.(context, written) === true };
    };
    for (const [key, { value, outdated }] of state.readAll(bucket, read)) {
      this.#values.set(key, value);
      if (outdated) this.set(key, value);
    }
  }

  get(key: string): V | null {
    return this.#values.get(key) ?? null;
  }

  /** Beyond `MAX_KEPT`, drops the value that was set longest ago. */
  set(key: string, value: V): void {
    const isNew = !this.#values.delete(key);
    this.#values.set(key, value);
    if (isNew && this.#values.size > MAX_KEPT) this.forget(this.#values.keys().next().value!);
    const bytes = (): Buffer => {
      const text = JSON.stringify(value);
      return Buffer.from(this.#sealing?.seal(`${this.#bucket} ${key}`, text) ?? text);
    };
    // Length 0: the queued write keeps nothing in memory that the table does not.
    this.#state.put(this.#bucket, key, { length: 0, bytes }, isNew);
  }

  forget(key: string): void {
    if (this.#values.delete(key)) this.#state.delete(this.#bucket, key);
  }

  forgetAll(prefix: string): void {
    for (const key of this.#values.keys()) if (key.startsWith(prefix)) this.forget(key);
  }
}

export class SqliteEraVerdicts extends WriteBehindTable<EraVerdict> implements EraVerdicts {
  constructor(state: StateFile) {
    super(state, 'era');
  }
}

/** The kinds of client for which each server was listed. */
export class SqliteKinds extends WriteBehindTable<readonly string[]> {
  constructor(state: StateFile) {
    super(state, 'kinds');
  }
}

/** Upstream HTTP sessions in `state.db`, by server and session key; sealed, because a session id alone grants access. */
export class SqliteUpstreamSessions implements UpstreamSessions {
  readonly #table: WriteBehindTable<UpstreamSessionRecord>;

  constructor(state: StateFile, sealing: Sealing) {
    this.#table = new WriteBehindTable(state, 'upstream-session', sealing);
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

  deleteAll(server: string): void {
    this.#table.forgetAll(`${server}\n`);
  }
}

/** The stored JSON object; null for other JSON. */
function storedObject<V>(text: string): V | null {
  const stored: unknown = JSON.parse(text);
  return typeof stored === 'object' ? (stored as V | null) : null;
}

/** The bucket of client sessions. */
export const SESSIONS = 'session';
/** Approximate size of a record apart from what the client declared. */
const OTHER_FIELDS = 400;

/** Client sessions in `state.db`, one JSON record each. */
export class SqliteSessionRecords implements SessionRecords {
  readonly #state: StateFile;

  constructor(state: StateFile) {
    this.#state = state;
  }

  async get(id: string): Promise<SessionRecord | null> {
    return this.#state.readOne(SESSIONS, id, sessionIn);
  }

  put(record: SessionRecord, isNew = false): void {
    const length = record.capabilities.length + (record.info?.length ?? 0) + OTHER_FIELDS;
    this.#state.put(SESSIONS, record.id, { length, bytes: () => Buffer.from(JSON.stringify(record)) }, isNew);
  }

  delete(id: string): void {
    this.#state.delete(SESSIONS, id);
  }

  async all(): Promise<readonly SessionRecord[]> {
    return Array.from(this.#state.readAll(SESSIONS, sessionIn), ([, record]) => record);
  }

  async visit(visitor: (record: SessionRecord) => boolean): Promise<void> {
    (await this.all()).some(visitor);
  }
}

function sessionIn(value: Buffer, id: string): SessionRecord | null {
  const record = storedObject<SessionRecord>(value.toString());
  return record?.id === id && typeof record.capabilities === 'string' ? record : null;
}

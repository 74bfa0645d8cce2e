import type { SessionRecord } from '../../model/ports.ts';
import { jsonIn } from '../store-records.ts';

export interface StoredSession extends SessionRecord {
  /** Peer of the node that counts the session; absent in records of an earlier version. */
  readonly by?: string;
}

export function bytesOf(record: SessionRecord, by: string | undefined): Buffer {
  return Buffer.from(JSON.stringify({ ...record, by }));
}

export function recordIn(value: Buffer): StoredSession | null {
  const record = jsonIn<StoredSession>(value);
  if (record === null) return null;
  const { id, principal, endpoint, revision, capabilities, info } = record;
  const texts = [id, principal, endpoint, revision, capabilities, info ?? ''];
  return texts.every((text) => typeof text === 'string') ? { ...record, info: info ?? null } : null;
}

/** The fields that sessions of one client product, caller and node share. */
type SessionKind = Omit<StoredSession, 'id' | 'createdAt' | 'lastSeenAt'>;

/** A compact record, because there may be many. */
export interface SessionFacts {
  readonly kind: SessionKind;
  readonly createdAt: number;
  /** Relative to `createdAt`: V8 stores small integers without a heap object. */
  readonly seenAfterMs: number;
}

const MAX_KINDS = 4_096;
/** Longer kinds are not shared, because clients must not decide how much memory the map takes. */
const MAX_LENGTH = 8 * 1024;

export class SessionKinds {
  readonly #kinds = new Map<string, SessionKind>();

  factsOf(record: SessionRecord): SessionFacts {
    // `kind` includes fields of later versions.
    const { id: _, createdAt, lastSeenAt, ...kind } = record;
    return { kind: this.#shared(kind), createdAt, seenAfterMs: lastSeenAt - createdAt };
  }

  #shared(kind: SessionKind): SessionKind {
    const name = JSON.stringify(kind);
    const known = this.#kinds.get(name);
    if (known !== undefined || name.length > MAX_LENGTH) return known ?? kind;
    if (this.#kinds.size >= MAX_KINDS) this.#kinds.clear();
    this.#kinds.set(name, kind);
    return kind;
  }
}

export function recordOf(id: string, { kind, createdAt, seenAfterMs }: SessionFacts): SessionRecord {
  const { by: _, ...shared } = kind;
  return { id, ...shared, createdAt, lastSeenAt: createdAt + seenAfterMs };
}

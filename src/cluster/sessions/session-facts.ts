import type { SessionRecord } from '../../model/ports.ts';

/** What many sessions have in common: those of clients of one make that are the same caller's, nearly everything. */
export type SessionKind = Omit<SessionRecord, 'id' | 'createdAt' | 'lastSeenAt'>;

/** A record as it is kept, under its id: of the sessions of all nodes, so that every word of it counts. */
export interface SessionFacts {
  readonly kind: SessionKind;
  readonly createdAt: number;
  /** From then on: small numbers take no memory of their own. */
  readonly seenAfterMs: number;
}

const MAX_KINDS = 1_024;
/** Longer ones stay as they are: what clients say must not decide what is kept. */
const MAX_LENGTH = 8 * 1024;

/** Keeps what records have in common once. */
export class SessionKinds {
  readonly #kinds = new Map<string, SessionKind>();

  factsOf(record: SessionRecord): SessionFacts {
    // With what nodes of later versions may say besides.
    const { id: _, createdAt, lastSeenAt, ...kind } = record;
    return { kind: this.#shared(kind), createdAt, seenAfterMs: lastSeenAt - createdAt };
  }

  /** An equal one. */
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
  return { id, ...kind, createdAt, lastSeenAt: createdAt + seenAfterMs };
}

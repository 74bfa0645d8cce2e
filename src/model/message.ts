/** The two families of wire vocabulary: 2024-11-05 … 2025-11-25 (`stateful`) and 2026-07-28 (`stateless`). */
export type Era = 'stateful' | 'stateless';

export type MessageKind = 'request' | 'notification' | 'result' | 'error';

/**
 * One JSON-RPC message as bytes, with the positions of its envelope; changes are splices, without serialising again.
 * Ranges are half-open. `body` is `params`, `result` or `error`; `era` is its vocabulary. Only `protocol/scan` and
 * `protocol/compose` make messages.
 */
export class Message {
  readonly bytes: Buffer;
  readonly kind: MessageKind;
  readonly era: Era;
  /** Empty for results and errors. */
  readonly method: string;
  /** Range of the id's lexeme, quotes included; -1, -1 without an id. */
  readonly idStart: number;
  readonly idEnd: number;
  /** Range of the body's value; -1, -1 where `params` is absent. */
  readonly bodyStart: number;
  readonly bodyEnd: number;

  constructor(
    bytes: Buffer,
    kind: MessageKind,
    era: Era,
    method: string,
    idStart: number,
    idEnd: number,
    bodyStart: number,
    bodyEnd: number,
  ) {
    this.bytes = bytes;
    this.kind = kind;
    this.era = era;
    this.method = method;
    this.idStart = idStart;
    this.idEnd = idEnd;
    this.bodyStart = bodyStart;
    this.bodyEnd = bodyEnd;
  }

  /** The id exactly as written (`7`, `"7"`, `9007199254740993`); empty without one. */
  get id(): string {
    return this.idStart < 0 ? '' : this.bytes.toString('latin1', this.idStart, this.idEnd);
  }

  /** The bytes of the body's value; empty where `params` is absent. A view, not a copy. */
  get body(): Buffer {
    return this.bodyStart < 0 ? EMPTY : this.bytes.subarray(this.bodyStart, this.bodyEnd);
  }
}

const EMPTY = Buffer.alloc(0);

/** The dated revisions of the specification, oldest first. */
export const REVISIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const;

export type Revision = (typeof REVISIONS)[number];

/** The newest revision of each era, which the gateway offers when the peer leaves the choice to it. */
export const LATEST_STATEFUL = '2025-11-25' satisfies Revision;
export const LATEST_STATELESS = '2026-07-28' satisfies Revision;

/** The revision that the client of seed S4 advertised, exported for its programs; the gateway negotiates (S4.1). */
export const PROTOCOL_VERSION = '2025-06-18' satisfies Revision;

export const STATEFUL_REVISIONS: readonly Revision[] = REVISIONS.slice(0, 4);
export const STATELESS_REVISIONS: readonly Revision[] = REVISIONS.slice(4);

export function isRevision(text: string): text is Revision {
  return (REVISIONS as readonly string[]).includes(text);
}

export function eraOf(revision: Revision): Era {
  return revision === LATEST_STATELESS ? 'stateless' : 'stateful';
}

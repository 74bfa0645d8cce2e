import { createHash } from 'node:crypto';
import type { Bucket, StateRecord } from '../../bus/shared-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { SessionPlace, UpstreamSessionRecord } from '../../model/ports.ts';
import { type Sealing, sealedAnew } from '../../model/sealing.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { fencingToken, jsonIn, writeOver } from '../store-records.ts';

const SESSIONS = 'trunkline_server_sessions';
/** Used ones are written once a day. */
const KEPT_MS = 8 * 24 * 3_600_000;
/** Contains the server's handshake result. */
export const MAX_RECORD_BYTES = 512 * 1024;

export interface WrittenSession {
  /** The node that opens it; empty when it is open. */
  readonly by: string;
  /** Null: the record's own revision. */
  readonly since: number | null;
  /** It replaces a lost one. */
  readonly replaces: boolean;
  /** For nodes of earlier versions, which read no record without it; 1 if absent. */
  readonly blocks?: number;
  /** Empty while there is none. */
  readonly sealed: string;
}

/** As it is in the store. */
export interface HeldSession extends WrittenSession {
  readonly since: number;
  readonly revision: number;
}

/** Another definition of the server has other sessions. */
export function sessionKeyOf({ server, identity, key }: SessionPlace): string {
  const digest = createHash('sha256').update(`${server}\n${identity}\n${key}`).digest('hex').slice(0, 40);
  return `session.${digest}`;
}

/** What is shared of the sessions of HTTP servers. Operations reject with GatewayError. */
export class SharedSessionStore {
  readonly bucket: Bucket;
  readonly #bus: ClusterDeps['bus'];
  readonly #sealing: Sealing;

  constructor({ bus, state, sealing }: Pick<ClusterDeps, 'bus' | 'state' | 'sealing'>) {
    this.#bus = bus;
    this.#sealing = sealing;
    this.bucket = state.bucket(SESSIONS, { ttlMs: KEPT_MS, maxValueBytes: MAX_RECORD_BYTES });
  }

  get peer(): string {
    return this.#bus.peer;
  }

  get connected(): boolean {
    return this.#bus.status.state === 'connected';
  }

  async get(key: string): Promise<HeldSession | null> {
    if (!this.connected) throw new GatewayError('NOT_SENT', 'the bus is not connected');
    const found = await this.bucket.get(key);
    return found === null ? null : heldIn(found);
  }

  /** Over what was read; null if another node was faster. */
  write(key: string, written: WrittenSession, over: HeldSession | null): Promise<number | null> {
    return writeOver(this.bucket, key, textOf(written), over);
  }

  generation({ since }: { readonly since: number }): string {
    return fencingToken(this.bucket.incarnation, since);
  }

  seal(key: string, record: UpstreamSessionRecord): string {
    return this.#sealing.seal(contextOf(key), JSON.stringify(record));
  }

  /** Null if there is none. */
  open(key: string, { sealed }: WrittenSession): UpstreamSessionRecord | null {
    const text = sealed === '' ? null : this.#sealing.open(contextOf(key), sealed);
    if (text === null) return null;
    const record = JSON.parse(text) as UpstreamSessionRecord;
    return typeof record.mcpSessionId === 'string' && typeof record.hello === 'string' ? record : null;
  }

  /** Null if the key in force sealed it. */
  anew(found: StateRecord): Buffer | null {
    const held = heldIn(found);
    const sealed = held.sealed === '' ? null : sealedAnew(this.#sealing, contextOf(found.key), held.sealed);
    return sealed === null ? null : textOf({ ...held, sealed });
  }
}

export function textOf({ by, since, replaces, blocks = 1, sealed }: WrittenSession): Buffer {
  return Buffer.from(JSON.stringify({ blocks, by, since, replaces, sealed }));
}

/** An unreadable record is as good as an empty one. */
function heldIn({ value, revision }: StateRecord): HeldSession {
  const { by, since, replaces, blocks = 1, sealed } = jsonIn<Partial<WrittenSession>>(value) ?? {};
  if (typeof by !== 'string' || typeof sealed !== 'string')
    return { by: '', since: revision, replaces: false, sealed: '', revision };
  const began = typeof since === 'number' ? since : revision;
  return { by, since: began, replaces: replaces === true, blocks, sealed, revision };
}

function contextOf(key: string): string {
  return `upstream ${key}`;
}

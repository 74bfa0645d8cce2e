import { createHash } from 'node:crypto';
import type { StateRecord } from '../../bus/shared-state.ts';
import type { UpstreamSessionRecord } from '../../model/ports.ts';
import type { Sealing } from '../../model/sealing.ts';
import type { SessionPlace } from '../../model/shared-upstream-sessions.ts';

/** What is written of an upstream session. */
export interface WrittenSession {
  /** The node that is opening it; empty when it is open. */
  readonly by: string;
  /** Revision in which it began to be opened; null: this very one. */
  readonly since: number | null;
  /** It takes the place of one that is lost. */
  readonly replaces: boolean;
  /** How many blocks of request ids nodes of earlier versions took, which read no record without it; 1 where absent. */
  readonly blocks?: number;
  /** The record, sealed; empty while there is none. */
  readonly sealed: string;
}

/** Under which key it is written. Another definition of the server is another key: its sessions are not these. */
export function sessionKeyOf({ server, identity, key }: SessionPlace): string {
  const digest = createHash('sha256').update(`${server}\n${identity}\n${key}`).digest('hex').slice(0, 40);
  return `session.${digest}`;
}

export function writtenText(written: WrittenSession): Buffer {
  return Buffer.from(JSON.stringify({ blocks: 1, ...written }));
}

/** null for what cannot be read: it is as good as not there. */
export function readWritten({ value }: StateRecord): WrittenSession | null {
  try {
    const { by, since, replaces, blocks = 1, sealed } = JSON.parse(value.toString()) as WrittenSession;
    if (typeof by !== 'string' || typeof sealed !== 'string') return null;
    return { by, since: typeof since === 'number' ? since : null, replaces: replaces === true, blocks, sealed };
  } catch {
    return null;
  }
}

export function sealRecord(sealing: Sealing, key: string, record: UpstreamSessionRecord): string {
  return sealing.seal(contextOf(key), JSON.stringify(record));
}

/** The same session of the same generation, where it was sealed with a key that will go; else null. */
export function resealed(sealing: Sealing, found: StateRecord): Buffer | null {
  const written = readWritten(found);
  if (written === null || sealing.outdated?.(contextOf(found.key), written.sealed) !== true) return null;
  const record = openRecord(sealing, found.key, written.sealed);
  if (record === null) return null;
  const since = written.since ?? found.revision;
  return writtenText({ ...written, since, sealed: sealRecord(sealing, found.key, record) });
}

export function openRecord(sealing: Sealing, key: string, sealed: string): UpstreamSessionRecord | null {
  const text = sealed === '' ? null : sealing.open(contextOf(key), sealed);
  if (text === null) return null;
  const record = JSON.parse(text) as UpstreamSessionRecord;
  return typeof record.mcpSessionId === 'string' && typeof record.hello === 'string' ? record : null;
}

function contextOf(key: string): string {
  return `upstream ${key}`;
}

import { createHash } from 'node:crypto';
import type { StateRecord } from '../../bus/shared-state.ts';
import type { SessionPlace, UpstreamSessionRecord } from '../../model/ports.ts';
import type { Sealing } from '../../model/sealing.ts';

export interface WrittenSession {
  /** Empty when it is open. */
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

/** Another definition of the server has other sessions. */
export function sessionKeyOf({ server, identity, key }: SessionPlace): string {
  const digest = createHash('sha256').update(`${server}\n${identity}\n${key}`).digest('hex').slice(0, 40);
  return `session.${digest}`;
}

export function writtenText(written: WrittenSession): Buffer {
  return Buffer.from(JSON.stringify({ blocks: 1, ...written }));
}

/** Null if unreadable: as good as missing. */
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

/** Null if the key in force sealed it. */
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

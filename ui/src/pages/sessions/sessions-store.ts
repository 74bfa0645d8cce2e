import { signal } from '@preact/signals';
import { mergedRecording } from '../../../../src/model/recordings.ts';
import { type Call, listRecordings, listSessions, type Recording, type Session } from '../../api/operations.ts';
import { onLive } from '../../live.ts';

/** Changes come in a row: a list is read once for all of them. */
const READ_AFTER_MS = 250;

export const sessions = signal<readonly Session[] | null>(null);
export const recordings = signal<readonly Recording[]>([]);
export const sessionsError = signal<Error | null>(null);

export async function readSessions(): Promise<void> {
  await Promise.all([readOpen(), readRecordings()]);
}

async function readOpen(): Promise<void> {
  try {
    ({ sessions: sessions.value } = await listSessions());
    sessionsError.value = null;
  } catch (error) {
    sessionsError.value = error as Error;
  }
}

async function readRecordings(): Promise<void> {
  try {
    ({ recordings: recordings.value } = await listRecordings());
  } catch (error) {
    sessionsError.value = error as Error;
  }
}

/**
 * Keeps both lists current until the returned function is called. Calls say when a session was used; the sessions are read again
 * when one calls a server for the first time, and when there are more or fewer of them.
 */
export function followSessions(): () => void {
  /** By node. */
  const counts = new Map<string | null, number>();
  /** What the stream says of recordings, by id and node. */
  const parts = new Map<string, Recording>();
  /** Sessions with the servers that they have called. */
  const known = new Set<string>();
  const open = reader(readOpen);
  const kept = reader(readRecordings);
  const all = (): void => {
    open.within(READ_AFTER_MS);
    kept.within(READ_AFTER_MS);
  };
  const ends = [
    onLive('hello', all),
    onLive('calls', ({ calls }) => {
      for (const { session, server } of calls) {
        if (session === null || known.has(`${session} ${server}`)) continue;
        known.add(`${session} ${server}`);
        open.within(READ_AFTER_MS);
      }
      sessions.value = used(sessions.value, calls);
    }),
    onLive('events', ({ event }) => {
      if (event.type === 'gap') all();
      else if (event.type === 'changed' && event.list === 'recordings') kept.within(READ_AFTER_MS);
    }),
    onLive('stats', ({ node, sessions: now, recordings: told = [] }) => {
      for (const part of told) parts.set(`${part.id} ${node}`, part);
      if (told.length > 0) recordings.value = recordings.value.map((one) => grown(one, parts));
      if ((counts.get(node) ?? now) !== now) open.within(READ_AFTER_MS);
      counts.set(node, now);
    }),
  ];
  void readSessions();
  return () => {
    open.end();
    kept.end();
    for (const end of ends) end();
  };
}

/** The recording as all nodes that have a part of it say; as it was until all have said something. */
function grown(recording: Recording, parts: ReadonlyMap<string, Recording>): Recording {
  const { id, nodes } = recording;
  const told = (nodes.length === 0 ? [null] : nodes).flatMap((node) => parts.get(`${id} ${node}`) ?? []);
  return told.length === 0 || told.length < nodes.length ? recording : mergedRecording(told);
}

/** Reads at most once within the time that is asked for. */
function reader(read: () => Promise<void>) {
  let due: ReturnType<typeof setTimeout> | undefined;
  return {
    within(ms: number): void {
      due ??= setTimeout(() => {
        due = undefined;
        void read();
      }, ms);
    },
    end: () => clearTimeout(due),
  };
}

/** The sessions as they are after the calls. */
function used(open: readonly Session[] | null, calls: readonly Call[]): readonly Session[] | null {
  const last = new Map(calls.map(({ session, time, ms }) => [session, new Date(Date.parse(time) + ms).toISOString()]));
  if (open?.some(({ label }) => last.has(label)) !== true) return open;
  return open.map((one) => ({ ...one, lastSeenAt: last.get(one.label) ?? one.lastSeenAt }));
}

export function clientName({ clientInfo }: Pick<Session, 'clientInfo'>): string {
  const { name = 'unnamed', version = '' } = (clientInfo ?? {}) as { name?: string; version?: string };
  return `${name} ${version}`.trimEnd();
}

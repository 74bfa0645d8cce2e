import { signal } from '@preact/signals';
import { UNNAMED_CLIENT } from '../../../../src/model/call-labels.ts';
import { mergedRecording } from '../../../../src/model/recordings.ts';
import { type Call, listRecordings, listSessions, type Recording, type Session } from '../../api/operations.ts';
import { onLive, stopAll } from '../../live.ts';
import { follow, reader } from '../../parts/reading.ts';

/** Changes come in a row: a list is read once for all of them. */
const READ_AFTER_MS = 250;

export const sessions = signal<readonly Session[] | null>(null);
/** How many there are; a large cluster lists those that were used last. */
export const sessionCount = signal(0);
/** What was recorded; null until it was read. */
export const recordings = signal<readonly Recording[] | null>(null);
/** The nodes whose recordings are not in the list. */
export const silent = signal<readonly string[]>([]);

export const sessionsReader = reader(
  () => listSessions(),
  (found) => {
    sessions.value = found.sessions;
    sessionCount.value = found.total;
  },
);
export const recordingsReader = reader(
  () => listRecordings(),
  (found) => {
    recordings.value = found.recordings;
    silent.value = found.silent ?? [];
  },
);

/** Keeps both lists current until the returned function is called. Calls say when a session was used. */
export function followSessions(): () => void {
  /** What the stream says of recordings, by id and node. */
  const parts = new Map<string, Recording>();
  return stopAll(
    follow(sessionsReader, { sessions: true, afterMs: READ_AFTER_MS }),
    follow(recordingsReader, { lists: ['recordings'], afterMs: READ_AFTER_MS }),
    onLive('calls', ({ calls }) => {
      sessions.value = used(sessions.value, calls);
    }),
    onLive('stats', ({ node, recordings: reported = [] }) => {
      for (const part of reported) parts.set(`${part.id} ${node}`, part);
      if (reported.length === 0 || recordings.value === null) return;
      recordings.value = recordings.value.map((one) => grown(one, parts));
    }),
  );
}

/** The recording as all nodes that have a part of it say; as it was until all have said something. */
function grown(recording: Recording, parts: ReadonlyMap<string, Recording>): Recording {
  const { id, nodes } = recording;
  const known = (nodes.length === 0 ? [null] : nodes).flatMap((node) => parts.get(`${id} ${node}`) ?? []);
  return known.length === 0 || known.length < nodes.length ? recording : mergedRecording(known);
}

/** The sessions as they are after the calls. */
function used(open: readonly Session[] | null, calls: readonly Call[]): readonly Session[] | null {
  const last = new Map(calls.map(({ session, time, ms }) => [session, new Date(Date.parse(time) + ms).toISOString()]));
  if (open?.some(({ label }) => last.has(label)) !== true) return open;
  return open.map((one) => ({ ...one, lastSeenAt: last.get(one.label) ?? one.lastSeenAt }));
}

export function clientOf({ client }: Pick<Session, 'client'>): string {
  return client ?? UNNAMED_CLIENT;
}

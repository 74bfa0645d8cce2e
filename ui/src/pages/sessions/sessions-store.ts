import { signal } from '@preact/signals';
import { listRecordings, listSessions, type Recording, type Session } from '../../api/operations.ts';
import { onLive } from '../../live.ts';

/** Calls come in a row: the lists are read once for all of them. */
const READ_AFTER_MS = 250;

export const sessions = signal<readonly Session[] | null>(null);
export const recordings = signal<readonly Recording[]>([]);
export const sessionsError = signal<Error | null>(null);

export async function readSessions(): Promise<void> {
  try {
    const [open, kept] = await Promise.all([listSessions(), listRecordings()]);
    sessions.value = open.sessions;
    recordings.value = kept.recordings;
    sessionsError.value = null;
  } catch (error) {
    sessionsError.value = error as Error;
  }
}

/** Keeps both lists current until the returned function is called: a session is seen by its calls, and by how many there are. */
export function followSessions(): () => void {
  let due: ReturnType<typeof setTimeout> | undefined;
  let count: number | null = null;
  const soon = (): void => {
    due ??= setTimeout(() => {
      due = undefined;
      void readSessions();
    }, READ_AFTER_MS);
  };
  const ends = [
    onLive('hello', soon),
    onLive('calls', soon),
    onLive('events', ({ event }) => {
      if (event.type === 'gap' || (event.type === 'changed' && event.list === 'recordings')) soon();
    }),
    onLive('stats', ({ sessions: open }) => {
      if (count !== null && count !== open) soon();
      count = open;
    }),
  ];
  void readSessions();
  return () => {
    clearTimeout(due);
    for (const end of ends) end();
  };
}

export function clientName({ clientInfo }: Pick<Session, 'clientInfo'>): string {
  const { name = 'unnamed', version = '' } = (clientInfo ?? {}) as { name?: string; version?: string };
  return `${name} ${version}`.trimEnd();
}

import { type ReadonlySignal, signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { WatchedList } from '../../../src/model/watched-list.ts';
import { onLive, stopAll } from '../live.ts';

/** Changes come in a row: the list is read once for all of them. */
const READ_AFTER_MS = 150;
/** Calls never end. */
const READ_AFTER_CALLS_MS = 1_000;
/** Uses of servers by sessions that are remembered. */
const KNOWN_USES = 10_000;

/** A list of the API that a page shows: null until it was read. `again` reads it anew. */
export interface Reading<T> {
  readonly value: ReadonlySignal<T | null>;
  readonly error: ReadonlySignal<Error | null>;
  readonly again: () => void;
}

/** What of the live stream a list depends on. */
export interface Follows {
  /** Events of these types; `changed` of these lists. */
  readonly events?: readonly string[];
  readonly lists?: readonly WatchedList[];
  /** Calls change it. */
  readonly calls?: boolean;
  /** It changes when sessions begin, end or call a server for the first time. */
  readonly sessions?: boolean;
  /** How long to wait for further changes before reading. */
  readonly afterMs?: number;
}

interface Reader extends Pick<Reading<unknown>, 'error' | 'again'> {
  /** At most once within the time. */
  within(ms: number): void;
  /** Ignores the answers that are still to come. */
  end(): void;
}

/** Reads something again and again. An older answer never replaces a newer one. */
export function reader<T>(
  read: () => Promise<T>,
  take: (value: T) => void,
  error = signal<Error | null>(null),
): Reader {
  let due: ReturnType<typeof setTimeout> | undefined;
  let asked = 0;
  let taken = 0;
  const readNow = async (): Promise<void> => {
    const number = ++asked;
    const isNew = (): boolean => {
      if (number <= taken) return false;
      taken = number;
      return true;
    };
    try {
      const value = await read();
      if (!isNew()) return;
      take(value);
      error.value = null;
    } catch (cause) {
      if (isNew()) error.value = cause as Error;
    }
  };
  return {
    error,
    again: () => void readNow(),
    within(ms) {
      due ??= setTimeout(() => {
        due = undefined;
        void readNow();
      }, ms);
    },
    end() {
      clearTimeout(due);
      due = undefined;
      taken = asked;
    },
  };
}

/** Has the reader read now, when the stream begins anew, and after what it follows; the returned function ends that. */
export function follow({ again, within, end }: Reader, follows: Follows): () => void {
  const { events = [], lists = [], calls = false, sessions = false, afterMs = READ_AFTER_MS } = follows;
  again();
  return stopAll(
    end,
    onLive('hello', () => within(afterMs)),
    onLive('calls', () => calls && within(READ_AFTER_CALLS_MS)),
    onLive('events', ({ event }) => {
      const of = event.type === 'changed' ? lists.includes(event.list) : events.includes(event.type);
      if (of || event.type === 'gap') within(afterMs);
    }),
    sessions ? onSessions(() => within(afterMs)) : () => {},
  );
}

/** Sessions of each node in its last second, also in one before a page asks. */
const counts = new Map<string | null, number>();
onLive('stats', ({ node, sessions }) => {
  counts.set(node, sessions);
});

/** No event reports sessions: the nodes count them, and calls say what they use. */
function onSessions(changed: () => void): () => void {
  const before = new Map(counts);
  const known = new Set<string>();
  return stopAll(
    onLive('stats', ({ node, sessions }) => {
      if (before.get(node) !== sessions) changed();
      before.set(node, sessions);
    }),
    onLive('calls', ({ calls }) => {
      for (const { session, server } of calls) {
        const use = `${session} ${server}`;
        if (session === null || known.has(use)) continue;
        if (known.size === KNOWN_USES) known.delete(known.values().next().value!);
        known.add(use);
        changed();
      }
    }),
  );
}

/** Reads a list when the page opens, when `key` is another, when the stream begins anew, and after what it follows. */
export function useReading<T>(read: () => Promise<T>, key: string, follows: Follows): Reading<T> {
  const value = useSignal<T | null>(null);
  const error = useSignal<Error | null>(null);
  const trigger = useSignal<() => void>(() => {});
  useEffect(() => {
    // What was read for another key is not shown under this one.
    value.value = null;
    error.value = null;
    const list = reader(
      read,
      (found) => {
        value.value = found;
      },
      error,
    );
    trigger.value = list.again;
    return follow(list, follows);
  }, [key]);
  return { value, error, again: () => trigger.value() };
}

/** The time; the component is drawn again each second. */
export function useNow(): number {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      now.value = Date.now();
    }, 1_000);
    return () => clearInterval(timer);
  }, []);
  return now.value;
}

/** As in `3 min ago`, `in 2 h`. */
export function ago(time: string | number, now = Date.now()): string {
  const at = typeof time === 'number' ? time : Date.parse(time);
  return at > now ? `in ${span(at - now)}` : `${span(now - at)} ago`;
}

/** As in `3 min`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} days`;
}

/** The time of the day in the zone of the browser; `fine`: with milliseconds. */
export function clock(time: string | number, fine = false): string {
  const at = new Date(time);
  const two = (value: number): string => String(value).padStart(2, '0');
  const seconds = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':');
  return fine ? `${seconds}.${String(at.getMilliseconds()).padStart(3, '0')}` : seconds;
}

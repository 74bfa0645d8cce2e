import { type Signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { onLive } from '../live.ts';

/** Changes come in a row: the list is read once for all of them. */
const READ_AFTER_MS = 150;
/** Calls never end. */
const READ_AFTER_CALLS_MS = 1_000;

/** A list of the API that a page shows: null until it was read. `again` reads it anew. */
export interface Reading<T> {
  readonly value: Signal<T | null>;
  readonly error: Signal<Error | null>;
  readonly again: () => void;
}

/** What of the live stream a list depends on. */
export interface Follows {
  /** Events of these types; `changed` of these lists. */
  readonly events?: readonly string[];
  readonly lists?: readonly string[];
  /** Calls change it. */
  readonly calls?: boolean;
}

/** Reads a list when the page opens, when `key` is another, when the stream begins anew, and after what it follows. */
export function useReading<T>(
  read: () => Promise<T>,
  key: string,
  { events = [], lists = [], calls = false }: Follows,
): Reading<T> {
  const value = useSignal<T | null>(null);
  const error = useSignal<Error | null>(null);
  const trigger = useSignal<() => void>(() => {});
  useEffect(() => {
    // What was read for another key is not shown under this one.
    value.value = null;
    error.value = null;
    let closed = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const now = async (): Promise<void> => {
      try {
        const found = await read();
        if (closed) return;
        value.value = found;
        error.value = null;
      } catch (cause) {
        if (!closed) error.value = cause as Error;
      }
    };
    const later = (afterMs = READ_AFTER_MS): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        void now();
      }, afterMs);
    };
    trigger.value = () => void now();
    void now();
    const stops = [
      onLive('hello', () => later()),
      onLive('calls', () => calls && later(READ_AFTER_CALLS_MS)),
      onLive('events', ({ event }) => {
        const of = event.type === 'changed' ? lists.includes(event.list) : events.includes(event.type);
        if (of || event.type === 'gap') later();
      }),
    ];
    return () => {
      closed = true;
      clearTimeout(timer);
      for (const stop of stops) stop();
    };
  }, [key]);
  return { value, error, again: () => trigger.value() };
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

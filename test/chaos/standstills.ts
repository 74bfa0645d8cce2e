/** A time in which something went on, in the time of the history. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

interface LogEntry {
  readonly time: string;
  readonly event: string;
  readonly ms: number;
}

const STANDSTILL = /^\{.*"event":"(?:process_stood_still|loop_watch_stood_still)".*\}$/gm;

/**
 * When the machine let a whole process of a node stand still, by its own log: its loop did not turn, and the thread that
 * watches the loop did not run either. A loop that stood still while that thread went on was blocked, which is the
 * gateway's own doing, and none of these. What the log lacks is held against the node. `origin`: of the history's clock,
 * by the wall clock.
 */
export function standstills(log: string, origin: number): Span[] {
  const reported = [...log.matchAll(STANDSTILL)].flatMap(([line]) => entryOf(line) ?? []);
  const spans = (event: string): Span[] =>
    reported
      .filter((entry) => entry.event === event)
      .map(({ time, ms }) => ({ from: Date.parse(time) - ms - origin, to: Date.parse(time) - origin }));
  const watch = spans('loop_watch_stood_still');
  return spans('process_stood_still').flatMap((loop) =>
    watch.flatMap((thread) => {
      const both = { from: Math.max(loop.from, thread.from), to: Math.min(loop.to, thread.to) };
      return both.from < both.to ? [both] : [];
    }),
  );
}

export function overlap(one: Span, other: Span): boolean {
  return one.from <= other.to && one.to >= other.from;
}

/** How long of these times, which do not overlap one another, lies within that one. */
export function timeWithin(spans: readonly Span[], { from, to }: Span): number {
  return spans.reduce((sum, span) => sum + Math.max(0, Math.min(span.to, to) - Math.max(span.from, from)), 0);
}

/** Null for what two threads wrote into one another. */
function entryOf(line: string): LogEntry | null {
  try {
    const entry = JSON.parse(line) as LogEntry;
    return Number.isFinite(Date.parse(entry.time) + entry.ms) ? entry : null;
  } catch {
    return null;
  }
}

/** A period of time, on the clock of the history. */
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
 * The periods in which the machine stopped a whole process of a node, by its own log: its loop did not turn, and the thread
 * that watches the loop did not run either. A loop that stood still while that thread ran was blocked by the gateway
 * itself, and does not count. A period that the log lacks counts against the node. `origin`: the time by the wall clock
 * at which the clock of the history began.
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

/** The total time of these spans, which do not overlap, within the other span. */
export function timeWithin(spans: readonly Span[], { from, to }: Span): number {
  return spans.reduce((sum, span) => sum + Math.max(0, Math.min(span.to, to) - Math.max(span.from, from)), 0);
}

/** Null for a line into which two threads wrote. */
function entryOf(line: string): LogEntry | null {
  try {
    const entry = JSON.parse(line) as LogEntry;
    return Number.isFinite(Date.parse(entry.time) + entry.ms) ? entry : null;
  } catch {
    return null;
  }
}

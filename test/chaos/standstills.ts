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

const TOLD = /^\{.*"event":"(?:process_stood_still|event_loop_blocked)".*\}$/gm;

/**
 * When the machine let a whole process of a node stand still, by its own log: what it answers in that time says nothing of
 * the gateway. Where its loop was blocked while its other thread went on, that was the gateway's doing, and is none of these.
 * `origin`: of the history's clock, by the wall clock.
 */
export function standstills(log: string, origin: number): Span[] {
  const told = [...log.matchAll(TOLD)].map(([line]) => JSON.parse(line) as LogEntry);
  const spans = (event: string): Span[] =>
    told
      .filter((entry) => entry.event === event)
      .map(({ time, ms }) => ({ from: Date.parse(time) - ms - origin, to: Date.parse(time) - origin }));
  const blocked = spans('event_loop_blocked');
  return spans('process_stood_still').filter((still) => !blocked.some((own) => overlap(own, still)));
}

export function overlap(one: Span, other: Span): boolean {
  return one.from <= other.to && one.to >= other.from;
}

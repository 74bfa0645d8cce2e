import type { CallSecond } from '../../api/operations.ts';

/** One second of all nodes. */
export interface Second extends Omit<CallSecond, 'time'> {
  /** Its end, in seconds since 1970. */
  readonly time: number;
}

interface Heard {
  readonly parts: Map<string, CallSecond>;
  readonly whole: Second;
}

export const KEPT_SECONDS = 300;

/** What the nodes have said of the last seconds. */
export class Seconds {
  readonly #heard = new Map<number, Heard>();

  /** Replaces what the node has said of this second before. */
  add(node: string | null, second: CallSecond): void {
    const time = Math.round(Date.parse(second.time) / 1_000);
    const parts = this.#heard.get(time)?.parts ?? new Map<string, CallSecond>();
    parts.set(node ?? '', second);
    this.#heard.set(time, { parts, whole: ofAllNodes(time, [...parts.values()]) });
  }

  /** All of them up to the last that is known, oldest first. One of which no node has said anything is without calls. */
  get all(): readonly Second[] {
    if (this.#heard.size === 0) return [];
    const last = Math.max(...this.#heard.keys());
    for (const time of this.#heard.keys()) if (time <= last - KEPT_SECONDS) this.#heard.delete(time);
    const first = Math.min(...this.#heard.keys());
    return Array.from(
      { length: last - first + 1 },
      (_, at) => this.#heard.get(first + at)?.whole ?? ofAllNodes(first + at, []),
    );
  }
}

function ofAllNodes(time: number, parts: readonly CallSecond[]): Second {
  return {
    time,
    calls: parts.reduce((sum, { calls }) => sum + calls, 0),
    errors: parts.reduce((sum, { errors }) => sum + errors, 0),
    p50: percentile(parts, 50),
    p95: percentile(parts, 95),
    p99: percentile(parts, 99),
  };
}

/** Of one node its own; of several an estimate, in which each percentile of a node has the weight of its calls. */
function percentile(parts: readonly CallSecond[], percent: number): number | null {
  const times = parts
    .flatMap(({ calls, p50, p95, p99 }) => [
      { ms: p50 ?? 0, weight: 72 * calls },
      { ms: p95 ?? 0, weight: 25 * calls },
      { ms: p99 ?? 0, weight: 3 * calls },
    ])
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => a.ms - b.ms);
  let left = percent * parts.reduce((sum, { calls }) => sum + calls, 0);
  return times.find(({ weight }) => (left -= weight) <= 0)?.ms ?? null;
}

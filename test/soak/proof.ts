/** One measured figure and its limit. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** Null: for information. */
  readonly atMost: number | null;
}

export interface Outcome {
  readonly figures: readonly Figure[];
  /** Rules broken beyond figures, in words; empty when none was. */
  readonly broken: readonly string[];
}

/** The input of a proof. */
export interface Run {
  readonly seed: number;
  /** Leaves out what takes ten minutes; the result says so. */
  readonly short: boolean;
  readonly say: (text: string) => void;
  /** Values kept over an interrupted run, by `--resume`. */
  readonly kept: Kept;
}

export interface Kept {
  get<T>(key: string): T | null;
  set(key: string, value: unknown): void;
}

/** One claim that is tried at real constants. */
export interface Proof {
  readonly id: string;
  readonly group: 'faults' | 'chaos' | 'soak';
  readonly claim: string;
  /** What `--short` leaves out; null where it changes nothing. */
  readonly shortened: string | null;
  run(run: Run): Promise<Outcome>;
}

export function figure(name: string, value: number, unit: string, atMost: number | null = null): Figure {
  return { name, value: Math.round(value * 100) / 100, unit, atMost };
}

export function holds({ figures, broken }: Outcome): boolean {
  return broken.length === 0 && figures.every(({ value, atMost }) => atMost === null || value <= atMost);
}

/** The value that `percent` percent of all do not exceed; 0 if there are none. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil((percent / 100) * sorted.length) - 1)] ?? 0;
}

import type { TestContext } from 'node:test';

/** What one run of a fault test came out with, beside good or bad; judged over many runs by `npm run prove -- faults`. */
export interface Measured {
  readonly row: string;
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** What 99 of 100 may not exceed on a quiet machine; null: for information. */
  readonly atMost: number | null;
}

const MARK = 'measured ';

/** Tells a figure to whoever runs the test: a test itself does not judge how fast the machine is. */
export function measured(
  t: Pick<TestContext, 'diagnostic'>,
  row: string,
  name: string,
  values: number | readonly number[],
  unit: string,
  atMost: number | null = null,
): void {
  for (const value of Array.isArray(values) ? (values as readonly number[]) : [values as number]) {
    t.diagnostic(`${MARK}${JSON.stringify({ row, name, value, unit, atMost } satisfies Measured)}`);
  }
}

/** The figure in a diagnostic message; null where it is another one. */
export function readMeasured(message: string): Measured | null {
  return message.startsWith(MARK) ? (JSON.parse(message.slice(MARK.length)) as Measured) : null;
}

/** Whether the sizes are those that are to be proved rather than those that a test suite has time for. */
export const FULL = process.env['TRUNKLINE_PROVE'] === 'full';

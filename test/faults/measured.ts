import type { TestContext } from 'node:test';

/** A figure of one run of a fault test, besides pass or fail; `npm run prove -- faults` judges it over many runs. */
export interface Measured {
  readonly row: string;
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** The limit that 99 of 100 values keep on a quiet machine; null: for information. */
  readonly atMost: number | null;
}

const MARK = 'measured ';

/** Reports a figure to the runner of the test: the test itself does not judge how fast the machine is. */
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

/** The figure in a diagnostic message; null for any other message. */
export function readMeasured(message: string): Measured | null {
  return message.startsWith(MARK) ? (JSON.parse(message.slice(MARK.length)) as Measured) : null;
}

/** Whether the tests use the full sizes to prove rather than the small sizes of the test suite. */
export const FULL = process.env['TRUNKLINE_PROVE'] === 'full';

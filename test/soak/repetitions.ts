import { run as runTests } from 'node:test';
import { type Measured, readMeasured } from '../faults/measured.ts';
import { type Figure, figure, type Outcome, percentile, type Run } from './proof.ts';

/** No test may take longer; the slowest takes a minute at its full size on a quiet machine. */
const TIMEOUT_MS = 10 * 60_000;

export interface RepeatedTests {
  readonly id: string;
  readonly files: readonly string[];
  /** Which of their tests, by title. */
  readonly named: RegExp;
  readonly rounds: number;
}

/** The results of the repetitions so far. */
interface Tally {
  rounds: number;
  /** Times of each test, in milliseconds, by its title. */
  tookMs: Record<string, number[]>;
  failures: string[];
  skipped: Record<string, string>;
  measured: Measured[];
}

/** Runs the tests again and again, at their full size and with their exact limits; an interrupted run goes on where it was. */
export async function repeat(tests: RepeatedTests, { kept, say }: Run): Promise<Outcome> {
  const { id, rounds } = tests;
  const tally = kept.get<Tally>(id) ?? { rounds: 0, tookMs: {}, failures: [], skipped: {}, measured: [] };
  process.env['TRUNKLINE_PROVE'] = 'full';
  while (tally.rounds < rounds) {
    await round(tests, tally);
    tally.rounds++;
    kept.set(id, tally);
    if (tally.rounds % 5 === 0 || tally.rounds === rounds) {
      say(`${id}: ${tally.rounds} of ${rounds} repetitions, ${tally.failures.length} failures`);
    }
  }
  return outcomeOf(tally);
}

async function round({ id, files, named }: RepeatedTests, tally: Tally): Promise<void> {
  const events = runTests({
    files: [...new Set(files)],
    testNamePatterns: [named],
    concurrency: 1,
    timeout: TIMEOUT_MS,
  });
  for await (const { type, data } of events) {
    if (type === 'test:diagnostic') {
      const found = readMeasured(data.message);
      if (found?.row === id) tally.measured.push(found);
    } else if (type === 'test:pass' || type === 'test:fail') {
      if (!named.test(data.name)) {
        if (type === 'test:fail') tally.failures.push(`${data.file ?? data.name}: ${errorOf(data.details.error)}`);
      } else if (type === 'test:fail') tally.failures.push(`${data.name}: ${errorOf(data.details.error)}`);
      else if (data.skip !== undefined) tally.skipped[data.name] = String(data.skip);
      else (tally.tookMs[data.name] ??= []).push(data.details.duration_ms);
    }
  }
}

function errorOf(error: Error | undefined): string {
  const cause = error?.cause instanceof Error ? error.cause : error;
  return (cause?.message ?? 'failed').slice(0, 2_000);
}

function outcomeOf({ rounds, tookMs, failures, skipped, measured }: Tally): Outcome {
  const tests = Object.entries(tookMs);
  const took = tests.flatMap(([, times]) => times);
  const broken = [...new Set(failures)].slice(0, 10);
  if (tests.length === 0) broken.push('no test was run');
  for (const [name, times] of tests) {
    if (times.length < rounds) broken.push(`${name}: only ${times.length} of ${rounds} repetitions were good`);
  }
  for (const [name, reason] of Object.entries(skipped)) broken.push(`${name}: skipped, ${reason}`);
  return {
    figures: [
      figure('tests', tests.length, ''),
      figure('repetitions of each', rounds, ''),
      figure('failures', failures.length, '', 0),
      figure('a test, p50', percentile(took, 50) / 1000, 's'),
      figure('a test, longest', percentile(took, 100) / 1000, 's'),
      ...figuresOf(measured),
    ],
    broken,
  };
}

function figuresOf(measured: readonly Measured[]): Figure[] {
  const names = [...new Set(measured.map(({ name }) => name))];
  return names.flatMap((name) => {
    const all = measured.filter((one) => one.name === name);
    const values = all.map(({ value }) => value);
    const { unit, atMost } = all[0]!;
    return [
      figure(`${name}, p50 of ${values.length}`, percentile(values, 50), unit),
      figure(`${name}, p99`, percentile(values, 99), unit, atMost),
      figure(`${name}, most`, percentile(values, 100), unit),
    ];
  });
}

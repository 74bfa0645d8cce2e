import { resolve } from 'node:path';
import { run as runTests } from 'node:test';
import { citations } from '../../test/e2e/citations.ts';
import { REQUIREMENTS } from '../../test/e2e/requirements.ts';
import { type Measured, readMeasured } from '../../test/faults/measured.ts';
import { type Figure, figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const ROUNDS = 20;
const SHORT_ROUNDS = 3;
/** No test of a row may take longer; the slowest takes a minute at its full size on a quiet machine. */
const TIMEOUT_MS = 10 * 60_000;

const ROWS = [
  ...['F01', 'F02', 'F03', 'F04', 'F05', 'F06', 'F07', 'F08', 'F09', 'F10', 'F11', 'F12', 'F13', 'F14', 'F15', 'F16'],
  ...['F17', 'F18', 'F19', 'F20', 'F22', 'F23', 'F24', 'F25', 'F26', 'F27', 'F28', 'F29', 'F30', 'F31', 'F32', 'F33'],
  ...['F34', 'F35', 'F36', 'F37', 'F38', 'F39', 'F40', 'F41', 'F42'],
];

/** What the repetitions of one row have come to so far. */
interface Tally {
  rounds: number;
  /** Times of each test, in milliseconds, by its title. */
  tookMs: Record<string, number[]>;
  failures: string[];
  skipped: Record<string, string>;
  measured: Measured[];
}

/** Each row of the fault matrix: every test that cites it, at its full size, again and again. */
export const FAULT_ROWS: readonly Proof[] = ROWS.map((row) => ({
  id: row,
  group: 'faults',
  claim: claimOf(row),
  shortened: `${ROUNDS - SHORT_ROUNDS} of ${ROUNDS} repetitions`,
  run: (run) => repeat(row, run),
}));

function claimOf(row: string): string {
  const { title } = REQUIREMENTS.find(({ id }) => id === `fault:${row}`)!;
  return `${title}: every test of the row, ${ROUNDS} times at full size`;
}

async function repeat(row: string, { short, kept, say }: Run): Promise<Outcome> {
  // What a contract says is run by the tests of its name.
  const files = (citations().get(`fault:${row}`) ?? []).map((file) =>
    resolve(ROOT, file.replace(/\.contract\.ts$/, '.test.ts')),
  );
  const tally = kept.get<Tally>(row) ?? { rounds: 0, tookMs: {}, failures: [], skipped: {}, measured: [] };
  const rounds = short ? SHORT_ROUNDS : ROUNDS;
  process.env['TRUNKLINE_PROVE'] = 'full';
  while (tally.rounds < rounds) {
    await round(row, new Set(files), tally);
    tally.rounds++;
    kept.set(row, tally);
    if (tally.rounds % 5 === 0 || tally.rounds === rounds) {
      say(`${row}: ${tally.rounds} of ${rounds} repetitions, ${tally.failures.length} failures`);
    }
  }
  return outcomeOf(tally);
}

async function round(row: string, files: ReadonlySet<string>, tally: Tally): Promise<void> {
  const events = runTests({
    files: [...files],
    testNamePatterns: [new RegExp(`fault:${row}\\b`)],
    concurrency: 1,
    timeout: TIMEOUT_MS,
  });
  for await (const { type, data } of events) {
    if (type === 'test:diagnostic') {
      const found = readMeasured(data.message);
      if (found?.row === row) tally.measured.push(found);
    } else if (type === 'test:pass' || type === 'test:fail') {
      if (!data.name.includes(`fault:${row}`)) {
        if (type === 'test:fail') tally.failures.push(`${data.file ?? data.name}: ${errorOf(data.details.error)}`);
      } else if (type === 'test:fail') tally.failures.push(`${data.name}: ${errorOf(data.details.error)}`);
      else if (data.skip !== undefined) tally.skipped[data.name] = String(data.skip);
      else (tally.tookMs[data.name] ??= []).push(data.details.duration_ms);
    }
  }
}

function errorOf(error: Error | undefined): string {
  const cause = error?.cause instanceof Error ? error.cause : error;
  return (cause?.message ?? 'failed').slice(0, 500);
}

function outcomeOf({ rounds, tookMs, failures, skipped, measured }: Tally): Outcome {
  const tests = Object.entries(tookMs);
  const took = tests.flatMap(([, times]) => times);
  const broken = [...new Set(failures)].slice(0, 10);
  if (tests.length === 0) broken.push('no test of the row was run');
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

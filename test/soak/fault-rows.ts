import { resolve } from 'node:path';
import { citations } from '../e2e/citations.ts';
import { REQUIREMENTS } from '../e2e/requirements.ts';
import type { Outcome, Proof, Run } from './proof.ts';
import { repeat } from './repetitions.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const ROUNDS = 20;
const SHORT_ROUNDS = 3;

const ROWS = [
  ...['F01', 'F02', 'F03', 'F04', 'F05', 'F06', 'F07', 'F08', 'F09', 'F10', 'F11', 'F12', 'F13', 'F14', 'F15', 'F16'],
  ...[
    'F17',
    'F18',
    'F19',
    'F20',
    'F21',
    'F22',
    'F23',
    'F24',
    'F25',
    'F26',
    'F27',
    'F28',
    'F29',
    'F30',
    'F31',
    'F32',
    'F33',
  ],
  ...['F34', 'F35', 'F36', 'F37', 'F38', 'F39', 'F40', 'F41', 'F42', 'F43', 'F44'],
];

/** Each row of the fault matrix: every test that cites it, at its full size, again and again. */
export const FAULT_ROWS: readonly Proof[] = ROWS.map((row) => ({
  id: row,
  group: 'faults',
  claim: claimOf(row),
  shortened: `${ROUNDS - SHORT_ROUNDS} of ${ROUNDS} repetitions`,
  run: (run) => tried(row, run),
}));

function claimOf(row: string): string {
  const { title } = REQUIREMENTS.find(({ id }) => id === `fault:${row}`)!;
  return `${title}: every test of the row passes, ${ROUNDS} times at full size`;
}

function tried(row: string, run: Run): Promise<Outcome> {
  // The test file of the same name runs the tests of a contract.
  const files = (citations().get(`fault:${row}`) ?? []).map((file) =>
    resolve(ROOT, file.replace(/\.contract\.ts$/, '.test.ts')),
  );
  const rounds = run.short ? SHORT_ROUNDS : ROUNDS;
  return repeat({ id: row, files, named: new RegExp(`fault:${row}\\b`), rounds }, run);
}

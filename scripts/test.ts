/**
 * `npm test`: the whole test suite. Arguments narrow it to files whose path contains one of them:
 * `npm test -- protocol gateway`. Tests start and stop what they need themselves.
 *
 * With `TRUNKLINE_TEST_AGAIN=1` (CI, on a machine that other jobs load) up to six files with a failed test are run once
 * more, alone. If they pass then, the run passes with a warning: such a test, or the code it tests, has a defect. In CI
 * every requirement must be proven by a test that ran; elsewhere this is required of the rows of the mission only.
 *
 * The whole suite builds the package first, and gateways that it starts run what users run. Narrowed runs start the sources.
 */
import { createWriteStream, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { FileWatch } from './file-watch.ts';
import { run as runProgram } from './run.ts';
import runRecord, { type Ran } from './run-record.ts';
import { runVerdict } from './run-verdict.ts';

/** Number of test files that run at once. The machines have two cores, and half of the files wait most of the time. */
const AT_ONCE = 3;
const MOST_AGAIN = 6;
const root = resolve(import.meta.dirname, '..');
process.chdir(root);
const words = process.argv.slice(2);
const files = [
  'src/**/*.test.ts',
  'test/**/*.test.ts',
  'scripts/**/*.test.ts',
  'examples/**/*.test.ts',
  'bench/**/*.test.ts',
]
  .flatMap((pattern) => globSync(pattern, { cwd: root, exclude: (path) => path.endsWith('node_modules') }))
  .filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  // The long files are under test/ and start first: one that starts last would run alone at the end.
  .sort((a, b) => Number(b.startsWith('test/')) - Number(a.startsWith('test/')) || (a < b ? -1 : 1));

if (files.length === 0) {
  console.error(`no test file matches ${words.join(', ')}`);
  process.exitCode = 1;
} else if (words.length === 0 && (await runProgram('node', ['scripts/build.ts'])) !== 0) {
  process.exitCode = 1;
} else {
  if (words.length === 0) process.env['TRUNKLINE_BUILT'] = '1';
  const notes = mkdtempSync(join(tmpdir(), 'trunkline-test-'));
  const record = join(notes, 'record');
  const began = join(notes, 'began');
  process.env['TRUNKLINE_TEST_NOTES'] = began;
  process.env['TRUNKLINE_TEST_STATE'] = join(notes, 'state');
  const watch = new FileWatch({ notes: began, say: (text) => console.error(text) });
  const ci = process.env['TRUNKLINE_TEST_AGAIN'] === '1';
  process.exitCode = await tests(AT_ONCE, files, record);
  const ran = recorded(record);
  if (process.exitCode !== 0 && ci) {
    const again = [...new Set(ran.filter(({ outcome }) => outcome === 'failed').map(({ file }) => file))];
    if (again.length > 0 && again.length <= MOST_AGAIN) {
      console.log(`\nFLAKY? Once more, alone: ${again.join(' ')}\n`);
      process.exitCode = await tests(1, again, record);
      ran.push(...recorded(record));
      if (process.exitCode === 0) console.log(`\nFLAKY, to be mended: ${again.join(' ')}`);
    }
  }
  const covered = JSON.parse(readFileSync('test/e2e/covered.json', 'utf8')) as readonly string[];
  const verdict = runVerdict(ran, words.length === 0 ? covered : [], ci);
  if (verdict.lines.length > 0) console.log(`\n${verdict.lines.join('\n')}`);
  if (verdict.fails) process.exitCode = 1;
  watch.close();
  if (watch.failed) process.exitCode = 1;
  rmSync(notes, { recursive: true });
}

function recorded(path: string): Ran[] {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Ran);
}

/** Runs the files in their order, each in a process of its own; resolves with the exit code. */
async function tests(atOnce: number, which: readonly string[], record: string): Promise<number> {
  const events = run({
    files: which.map((file) => resolve(root, file)),
    concurrency: atOnce,
    timeout: 180_000,
    execArgv: ['--import=./test/support/compile-cache.ts', '--import=./test/support/ends-in-time.ts'],
  });
  let code = 1;
  events.on('test:summary', ({ file, success }) => {
    if (file === undefined) code = success ? 0 : 1;
  });
  events.compose(new spec()).pipe(process.stdout, { end: false });
  await pipeline(events.compose(runRecord), createWriteStream(record));
  return recorded(record).some(({ outcome }) => outcome === 'failed') ? 1 : code;
}

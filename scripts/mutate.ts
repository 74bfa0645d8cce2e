/**
 * `npm run mutate`: takes the behaviour of each row of the mission out of the product, one at a time, and shows that a
 * test that cites the row fails with it and not without it. Arguments narrow it: `npm run mutate -- S2.9 S3`. It works in
 * a copy of the checkout and leaves the checkout alone. Exit 1: a row whose tests pass without its behaviour, or fail
 * with it.
 *
 * `--jobs N`: N copies at a time (default 1). `--keep FILE`: adds each result to FILE and leaves out rows that FILE has as
 * killed for the same mutation: a run that was cut off goes on from there.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { citations, idsIn } from '../test/e2e/citations.ts';
import { MUTATIONS, type Mutation, mutated } from '../test/mutations/mutations.ts';
import type { Ran } from './run-record.ts';

interface Result {
  readonly row: string;
  readonly what: string;
  readonly verdict: 'killed' | 'SURVIVED' | 'TESTS FAIL ANYWAY' | 'DOES NOT APPLY';
  readonly seconds: number;
  /** The test that cites the row and failed, and how. */
  readonly by: Pick<Ran, 'file' | 'title' | 'reason'> | null;
}

/** Longer than any test takes. */
const SILENT_MS = 180_000;

const root = resolve(import.meta.dirname, '..');
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { jobs: { type: 'string', default: '1' }, keep: { type: 'string' } },
});
const cited = citations();
const done = values.keep !== undefined && existsSync(values.keep) ? readFileSync(values.keep, 'utf8') : '';
const todo = MUTATIONS.filter(
  ({ row, what }) =>
    (positionals.length === 0 || positionals.some((word) => row === word || row.startsWith(`${word}.`))) &&
    !done.includes(JSON.stringify({ row, what, verdict: 'killed' }).slice(0, -1)),
);
const results: Result[] = [];
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));
await Promise.all(Array.from({ length: Number(values.jobs) }, work));
const bad = results.filter(({ verdict }) => verdict !== 'killed');
for (const { row, what, verdict } of bad) console.log(`${verdict}: ${row} ${what}`);
console.log(`${results.length - bad.length} of ${results.length} mutations killed by a test that cites the row`);
process.exitCode = bad.length === 0 ? 0 : 1;

async function work(): Promise<void> {
  const copy = mkdtempSync(join(tmpdir(), 'trunkline-mutate-'));
  process.on('exit', () => rmSync(copy, { recursive: true, force: true }));
  const files = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' }).split('\0').filter(Boolean);
  for (const file of files.filter((path) => existsSync(join(root, path)))) cpSync(join(root, file), join(copy, file));
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  for (let mutation = todo.shift(); mutation !== undefined; mutation = todo.shift()) {
    const result = await tried(mutation, copy);
    results.push(result);
    console.log(`${result.verdict.padEnd(8)} ${result.row.padEnd(6)} ${result.seconds} s  ${result.what}`);
    if (values.keep !== undefined) appendFileSync(values.keep, `${JSON.stringify(result)}\n`);
  }
}

async function tried(mutation: Mutation, copy: string): Promise<Result> {
  const { row, what, file } = mutation;
  const from = performance.now();
  const result = (verdict: Result['verdict'], by: Result['by'] = null): Result => {
    return { row, what, verdict, seconds: Math.round((performance.now() - from) / 1000), by };
  };
  const text = readFileSync(join(copy, file), 'utf8');
  const without = mutated(mutation, text);
  if (without === null) return result('DOES NOT APPLY');
  writeFileSync(join(copy, file), without);
  const tests = testsOf(row);
  const by = await firstFailure(row, copy, tests);
  writeFileSync(join(copy, file), text);
  if (by === null) return result('SURVIVED');
  // The runner reports a test of a contract suite under the file of the suite.
  const anyway = await firstFailure(row, copy, tests.includes(by.file) ? [by.file] : tests, by.title);
  return anyway === null ? result('killed', by) : result('TESTS FAIL ANYWAY', anyway);
}

/** The test files that cite the row, those of the product first, because they are faster. */
function testsOf(row: string): string[] {
  // Contract suites are run by the tests that import them.
  const files = (cited.get(row) ?? []).flatMap((path) => (path.endsWith('.test.ts') ? [path] : importers(path)));
  return [...new Set(files)].sort();
}

/**
 * The first test that cites the row, or has that title, and fails in this copy. The run ends with it: without the
 * behaviour, each further test may wait until its timeout.
 */
async function firstFailure(row: string, copy: string, files: readonly string[], only?: string): Promise<Ran | null> {
  const arguments_ = [
    '--test',
    '--import=./test/support/ends-in-time.ts',
    '--test-concurrency=1',
    '--test-timeout=60000',
    '--test-force-exit',
    `--test-name-pattern=\\b${row.replace('.', '\\.')}\\b`,
    '--test-reporter=./scripts/run-record.ts',
    ...files,
  ];
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, arguments_, {
    cwd: copy,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = once(child, 'exit');
  let failed: Ran | null = null;
  const end = (): void => signalGroup(child.pid!, 'SIGKILL');
  // An endless loop, which the runner cannot interrupt.
  const endless = setTimeout(end, SILENT_MS);
  process.once('exit', end);
  for await (const line of createInterface(child.stdout)) {
    endless.refresh();
    const ran = JSON.parse(line) as Ran;
    const cites = only === undefined ? idsIn(ran.title).includes(row) : ran.title === only;
    if (ran.outcome !== 'failed' || !cites) continue;
    failed = ran;
    signalGroup(child.pid!, 'SIGTERM');
    break;
  }
  clearTimeout(endless);
  // The processes of the tests have this long to end the processes that they started.
  if (failed !== null) setTimeout(end, 5_000);
  await ended;
  process.off('exit', end);
  return failed;
}

function signalGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-leader, signal);
  } catch {
    // All processes have ended.
  }
}

/** The tests that run a contract suite, also by way of another one. */
function importers(contract: string): string[] {
  const name = contract.slice(contract.lastIndexOf('/'));
  const args = ['grep', '-lF', name, '--', '*.test.ts', '*.contract.ts'];
  const found = execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean);
  return found.flatMap((path) => (path.endsWith('.test.ts') ? [path] : importers(path)));
}

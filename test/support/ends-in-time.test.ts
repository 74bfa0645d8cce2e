import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FileWatch } from '../../scripts/file-watch.ts';
import { until } from './cluster-processes.ts';
import { childrenOf, livingAmong, MARK, markedProcesses } from './processes.ts';

const PRELOAD = resolve(import.meta.dirname, 'ends-in-time.ts');
const HOUR_MS = 3_600_000;
/** A child of a child, both of which hold the standard error of the file. */
const BEGETS = `spawn('sh', ['-c', 'sleep 600; true'], { stdio: ['ignore', 'ignore', 'inherit'] })`;

/** The test runner, as `npm test` starts it, with one file. */
function runner(t: TestContext, body: string) {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-watched-'));
  const file = join(folder, 'watched.test.mjs');
  const notes = join(folder, 'notes');
  const mark = folder;
  writeFileSync(
    file,
    `import { spawn } from 'node:child_process';\nimport { after, test } from 'node:test';\n${body}\n`,
  );
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child: ChildProcess = spawn(process.execPath, ['--test', `--import=${PRELOAD}`, file], {
    env: { ...env, TRUNKLINE_TEST_NOTES: notes, TRUNKLINE_TEST_GRACE_MS: '100', [MARK]: mark },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const run = { child, mark, said: '', reported: [] as string[], exited: once(child, 'close') as Promise<[number]> };
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (data: Buffer) => (run.said += data.toString()));
  const watch = new FileWatch({ notes, say: (text) => run.reported.push(text) });
  watch.close();
  t.after(() => {
    for (const pid of markedProcesses(mark)) process.kill(pid, 'SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const begun = () => until(() => existsSync(notes) && readdirSync(notes).length > 0, 'the file to begin');
  return { run, watch, file, begun };
}

test('a file that runs on after its tests is ended with all its children, and they are reported', async (t) => {
  const { run } = runner(t, `test('leaves', () => { ${BEGETS}; });`);
  const [code] = await run.exited;
  assert.equal(code, 1);
  assert.match(run.said, /LEFT OPEN {2}\S+watched\.test\.mjs: the tests are done for 0\.1 s/);
  assert.match(run.said, /process \d+: sh -c sleep 600/);
  assert.match(run.said, /process \d+: sleep 600/);
  await until(() => markedProcesses(run.mark).length === 0, 'all to be gone');
});

test('a file that blocks its event loop is reported and ended with its children, but not before its time limit', async (t) => {
  const { run, watch, file } = runner(
    t,
    `test('blocks', () => { ${BEGETS}; Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });`,
  );
  await until(() => childrenOf(run.child.pid!).length === 3, 'the processes of the file');
  const began = childrenOf(run.child.pid!);
  watch.look();
  assert.deepEqual([run.reported, watch.failed], [[], false]);
  watch.look(Date.now() + HOUR_MS);
  assert.equal(watch.failed, true);
  assert.ok(run.reported[0]!.startsWith(`LEFT OPEN  ${file}: it is not done after 15 minutes\n`), run.reported[0]);
  const [code] = await run.exited;
  assert.equal(code, 1);
  await until(() => livingAmong(began).length === 0, 'all to be gone');
});

test('leftover processes that hold the output of an ended file are ended: the runner does not wait for ever', async (t) => {
  const { run, watch, begun } = runner(
    t,
    `test('leaves', () => { ${BEGETS}.unref(); });\nafter(() => process.exit(0));`,
  );
  await begun();
  const left = (): number => markedProcesses(run.mark).length - 1;
  await until(() => childrenOf(run.child.pid!).length === 0 && left() === 2, 'the file to end, and the runner to wait');
  watch.look();
  assert.deepEqual(run.reported, []);
  watch.look(Date.now() + 60_000);
  assert.match(run.reported[0]!, /it has ended, and left what holds its output\n {2}process \d+: sh -c sleep 600/);
  assert.equal(watch.failed, true);
  await run.exited;
  watch.look();
  assert.equal(run.reported.length, 1);
});

test('a file that exits before its tests are done fails', async (t) => {
  const { run } = runner(
    t,
    `test('is good', () => {});\ntest('exits', () => new Promise((done) => setTimeout(done, 50)).then(() => process.exit(0)));`,
  );
  const [code] = await run.exited;
  assert.match(run.said, /✔ is good/);
  assert.match(run.said, /LEFT EARLY {2}\S+watched\.test\.mjs/);
  assert.equal(code, 1);
});

test('a file that ends leaves nothing behind', async (t) => {
  const { run, watch } = runner(t, `test('is good', () => {});`);
  const [code] = await run.exited;
  watch.look(Date.now() + HOUR_MS);
  assert.deepEqual([code, run.reported, watch.failed], [0, [], false]);
});

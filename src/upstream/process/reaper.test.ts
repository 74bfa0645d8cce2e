import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { MARK, markedProcesses, processCount, survivors } from '../../../test/support/processes.ts';
import { RecordingLog } from '../../../test/support/stdio-bench.ts';
import { statOf, sweep } from './process-group.ts';
import { Reaper } from './reaper.ts';

const LIMIT = { timeout: 40_000 };
const WAIT_MS = 10_000;
const STAND_IN = fileURLToPath(new URL('../../../test/support/stand-in-gateway.ts', import.meta.url));
const REAPER = fileURLToPath(new URL('./reaper-program.ts', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'trunkline-reaper-'));
const started: ChildProcess[] = [];
after(() => {
  for (const child of started) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

interface StandIn {
  readonly pid: number;
  readonly mark: string;
  /** Process id of the next reaper that is ready. */
  reaper(): Promise<number>;
  kill(): Promise<void>;
}

async function standIn(servers: number, recordFile?: string): Promise<StandIn> {
  const mark = randomUUID();
  const args = [STAND_IN, String(servers), mark, ...(recordFile === undefined ? [] : [recordFile])];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  started.push(child);
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  return {
    pid: child.pid!,
    mark,
    reaper: async () => Number((await lines.next()).value),
    async kill() {
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

/** A process group of the test's own. */
function family(mark: string, more: Record<string, string> = {}): ChildProcess {
  const child = spawn('sh', ['-c', `trap '' TERM; sleep 600 & sleep 600; :`], {
    detached: true,
    stdio: 'ignore',
    env: { ...process.env, [MARK]: mark, ...more },
  });
  started.push(child);
  return child;
}

async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + WAIT_MS;
  while (!condition() && performance.now() < end) await sleep(10);
  assert.ok(condition());
}

function gone(pid: number): boolean {
  const stat = statOf(pid);
  return stat === null || stat.state === 'Z';
}

test(
  'check:A12 check:B1 a gateway killed with -9 leaves no process: not a server, not a grandchild, not the reaper',
  LIMIT,
  async () => {
    const gateway = await standIn(4);
    const reaper = await gateway.reaper();
    assert.equal(await processCount(gateway.mark, 4 * 3, WAIT_MS), 4 * 3);
    await gateway.kill();
    assert.deepEqual(await survivors(gateway.mark, WAIT_MS), []);
    await until(() => gone(reaper));
  },
);

test(
  'check:A12 the reaper survives the signals that end a gateway, and a killed one is replaced by one with its groups',
  LIMIT,
  async () => {
    const gateway = await standIn(2);
    const first = await gateway.reaper();
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.kill(first, signal);
    await sleep(100);
    assert.ok(!gone(first));
    process.kill(first, 'SIGKILL');
    const second = await gateway.reaper();
    assert.notEqual(second, first);
    assert.equal(await processCount(gateway.mark, 2 * 3, WAIT_MS), 2 * 3);
    await gateway.kill();
    assert.deepEqual(await survivors(gateway.mark, WAIT_MS), []);
  },
);

test('security:11 closing the reaper kills the registered processes and no others', LIMIT, async () => {
  const reaper = new Reaper({ logger: new RecordingLog() });
  const [kept, freed] = [randomUUID(), randomUUID()];
  reaper.start(() => family(kept));
  const pid = reaper.pid!;
  const freedFamily = reaper.start(() => family(freed));
  reaper.unregister(freedFamily.pid!);
  await until(() => markedProcesses(kept).length === 3 && markedProcesses(freed).length === 3);
  await reaper.close();
  await reaper.close();
  assert.ok(gone(pid));
  assert.deepEqual(await survivors(kept, WAIT_MS), []);
  assert.equal(markedProcesses(freed).length, 3);
  process.kill(-freedFamily.pid!, 'SIGKILL');
});

test(
  'check:A12 a gateway killed between the start of a server and its registration leaves no process',
  LIMIT,
  async () => {
    // The reaper reads an announcement from such a gateway, then the end. Only the environment of the server has the mark.
    const reaper = spawn(process.execPath, [REAPER], { stdio: ['pipe', 'pipe', 'inherit'] });
    started.push(reaper);
    await once(reaper.stdout, 'data');
    const [announced, other] = [randomUUID(), randomUUID()];
    const mine = family(announced, { TRUNKLINE_SPAWN: announced });
    const others = family(other, { TRUNKLINE_SPAWN: other });
    await until(() => markedProcesses(announced).length === 3 && markedProcesses(other).length === 3);
    reaper.stdin.write(`?${other}\n?\n?${announced}\n`);
    reaper.stdin.end();
    await once(reaper, 'exit');
    assert.deepEqual(await survivors(announced, WAIT_MS), []);
    assert.equal(markedProcesses(other).length, 3);
    process.kill(-others.pid!, 'SIGKILL');
    assert.ok(gone(mine.pid!));
  },
);

test('check:A12 a gateway killed before its reaper has started leaves no process', LIMIT, async () => {
  const mark = randomUUID();
  const mine = family(mark);
  await until(() => markedProcesses(mark).length === 3);
  const reaper = spawn(process.execPath, [REAPER], { stdio: ['pipe', 'ignore', 'inherit'] });
  started.push(reaper);
  reaper.stdin.end(`+${mine.pid}\n`);
  await once(reaper, 'exit');
  assert.deepEqual(await survivors(mark, WAIT_MS), []);
});

test('the reaper is found beside its class in the built package, as .js', LIMIT, async () => {
  for (const name of ['reaper', 'reaper-program']) {
    const source = readFileSync(new URL(`./${name}.ts`, import.meta.url), 'utf8');
    writeFileSync(join(folder, `${name}.js`), stripTypeScriptTypes(source));
  }
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const built: typeof import('./reaper.ts') = await import(pathToFileURL(join(folder, 'reaper.js')).href);
  const log = new RecordingLog();
  const reaper = new built.Reaper({ logger: log });
  await reaper.ready();
  assert.deepEqual(log.entries, []);
  assert.ok(reaper.pid !== null && !gone(reaper.pid));
  await reaper.close();
});

test(
  'security:11 check:A12 the sweep at start ends what a dead gateway left when its reaper was killed too',
  LIMIT,
  async () => {
    const file = join(folder, 'processes.json');
    const gateway = await standIn(2, file);
    const reaper = await gateway.reaper();
    assert.deepEqual(await sweep(file), [], 'the recording gateway lives');
    // Stopped, the gateway cannot start another reaper.
    process.kill(gateway.pid, 'SIGSTOP');
    process.kill(reaper, 'SIGKILL');
    await gateway.kill();
    assert.equal(await processCount(gateway.mark, 2 * 3, WAIT_MS), 2 * 3);

    const record = JSON.parse(readFileSync(file, 'utf8'));
    const other = join(folder, 'other.json');
    const later = record.groups.map((group: { pid: number }) => ({ ...group, started: '1@another-boot' }));
    writeFileSync(other, JSON.stringify({ ...record, groups: later }));
    assert.deepEqual(await sweep(other), [], 'same pids, other processes');
    assert.equal(await processCount(gateway.mark, 2 * 3, WAIT_MS), 2 * 3);

    assert.equal((await sweep(file, 200)).length, 2);
    assert.deepEqual(await survivors(gateway.mark, WAIT_MS), []);
    assert.deepEqual(await sweep(file), []);
  },
);

for (const content of [
  '',
  'not json',
  '{}',
  '{"gateway":{"pid":0,"started":null},"groups":[{"pid":1,"started":null}]}',
]) {
  test(`an invalid record file (${content.slice(0, 12)}) ends no process`, async () => {
    const file = join(folder, 'odd.json');
    writeFileSync(file, content);
    assert.deepEqual(await sweep(file), []);
  });
}

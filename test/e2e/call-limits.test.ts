import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { until } from '../support/cluster-processes.ts';
import { PersonTerminal } from '../support/person-terminal.ts';
import { type CommandRun, said, startTrunkline, trunkline } from '../support/run-trunkline.ts';

const WORKER = resolve(import.meta.dirname, '../fixtures/stdio/worker.mjs');

describe('a call from the command line', () => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-calls-'));
  const ledger = join(folder, 'ledger');
  const data = ['--data-dir', join(folder, 'data')];
  const elsewhere = ['--data-dir', join(folder, 'none')];
  let gateway: CommandRun;
  before(async () => {
    const worker = { command: process.execPath, args: [WORKER], env: { LEDGER: ledger }, isolation: 'shared' };
    writeFileSync(join(folder, '.mcp.json'), JSON.stringify({ mcpServers: { worker } }));
    gateway = startTrunkline(['--port', '0', '--control-port', '0', ...data], { cwd: folder });
    await said(gateway, 'Servers');
  });
  after(async () => {
    gateway.process.kill();
    await gateway.exited;
    rmSync(folder, { recursive: true, force: true });
  });
  const noted = (): string[] => (existsSync(ledger) ? readFileSync(ledger, 'utf8').trim().split('\n') : []);
  const cancelled = (): number => noted().filter((line) => line === 'cancelled').length;

  for (const [where, flags, time] of [
    ['at a running gateway', data, '700ms'],
    ['at servers that were started for it', elsewhere, '5s'],
  ] as const) {
    test(`--timeout cancels it, ${where}, and the server is notified`, async () => {
      const before = cancelled();
      const { code, out, err } = await trunkline(['call', 'worker.work', 'hang=true', '--timeout', time, ...flags], {
        cwd: folder,
      });
      assert.deepEqual([code, out], [5, ''], err);
      assert.match(err, /\nUNKNOWN \(TIMEOUT\): tools\/call was not answered within \d+ ms/);
      await until(() => cancelled() === before + 1, 'the cancellation');
    });

    test(`Ctrl-C cancels it, ${where}, and the server is notified`, async () => {
      const [calls, before] = [noted().length, cancelled()];
      const run = startTrunkline(['call', 'worker.work', 'hang=true', ...flags], { cwd: folder });
      await until(() => noted().length > calls, 'the call at its server');
      run.process.kill('SIGINT');
      assert.equal(await run.exited, 5);
      assert.match(run.err, /cancelled/i);
      await until(() => cancelled() === before + 1, 'the cancellation');
    });
  }

  test('on a terminal its progress is one line that changes, gone before the result; with --json there is none', async () => {
    const person = await PersonTerminal.open(['call', 'worker.work', ...data, 'hang=true'], {
      cwd: folder,
      columns: 60,
      rows: 12,
    });
    await person.sees(/^1 of 4 {2}25 % {2}step \\x1b\[2J1$/m);
    assert.equal(noted().at(-1), 'called with progress');
    await person.end();
    assert.doesNotMatch((await person.lines(true)).join('\n'), /25 %/);

    const done = await PersonTerminal.open(['call', 'worker.work', ...data], { cwd: folder, columns: 60, rows: 12 });
    await done.exited;
    assert.equal((await done.lines(true)).at(-1), 'done');
    const json = await PersonTerminal.open(['call', '--json', 'work', ...data], {
      cwd: folder,
      columns: 200,
      rows: 12,
    });
    await json.exited;
    const result = '"result":{"content":[{"type":"text","text":"done"}]}';
    assert.equal(json.raw.trim(), `{"server":"worker","tool":"work","outcome":"RESULT",${result}}`);
  });

  test('an invalid time is wrong usage', async () => {
    for (const time of ['soon', '0s', '-1', '5 s', '30']) {
      const { code, err } = await trunkline(['call', 'worker.work', `--timeout=${time}`, ...data], { cwd: folder });
      assert.deepEqual([code, /written as 90s, 10m or 2h/.test(err)], [1, true], err);
    }
  });
});

test('a tool named without its server waits for servers that start, since any may have it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-bare-'));
  const data = ['--data-dir', join(folder, 'data')];
  const [ledger, go] = [join(folder, 'ledger'), join(folder, 'go')];
  const command = `until [ -e ${go} ]; do sleep 0.1; done; exec ${process.execPath} ${WORKER}`;
  const slow = { command: 'sh', args: ['-c', command], env: { LEDGER: ledger } };
  writeFileSync(join(folder, '.mcp.json'), JSON.stringify({ mcpServers: { slow } }));
  const gateway = startTrunkline(['--port', '0', '--control-port', '0', ...data], { cwd: folder });
  t.after(async () => {
    gateway.process.kill();
    await gateway.exited;
    rmSync(folder, { recursive: true, force: true });
  });
  await said(gateway, /ready in/);
  const late = await trunkline(['call', 'work', '--timeout', '1500ms', ...data], { cwd: folder });
  assert.deepEqual([late.code, /NOT_SENT: .*: slow is starting; allow more/.test(late.err)], [4, true], late.err);

  const call = startTrunkline(['call', 'work', ...data], { cwd: folder });
  await until(() => /\nwaiting for slow to start\n/.test(call.err), 'the message that it waits');
  writeFileSync(go, '');
  assert.deepEqual([await call.exited, call.out], [0, 'done\n'], call.err);
});

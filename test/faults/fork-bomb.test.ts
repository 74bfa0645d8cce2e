import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, openSync } from 'node:fs';
import { test } from 'node:test';
import { markedProcesses } from '../support/processes.ts';
import { FaultBench, until } from './fault-bench.ts';

/** A separate user, so that the limit on its processes counts no other processes. */
const BOMBER = 64_124;
/** A Node process has a dozen threads, and each counts. */
const PROCESSES = 80;

// Only root can start and limit the processes of another user.
const impossible = ((): string | false => {
  if (process.getuid?.() !== 0) return 'needs root';
  try {
    execFileSync('prlimit', ['--version'], { stdio: 'ignore' });
    return false;
  } catch {
    return 'no prlimit here';
  }
})();

test('fault:F41 a server that forks without end reaches the limit of its user: the gateway and the others live, and all its processes end', {
  skip: impossible,
}, async (t) => {
  const bench = new FaultBench(t);
  chmodSync(bench.folder, 0o755);
  const ledger = bench.ledger('bomber');
  closeSync(openSync(ledger, 'a'));
  chmodSync(ledger, 0o666);
  const bomber = bench.stdio('bomber', 'stateful', {
    isolation: 'shared',
    cwd: '/',
    timeoutMs: 5_000,
    runAs: { user: BOMBER, processes: PROCESSES },
  });
  const servers = { bomber, good: bench.stdio('good', 'stateful', { isolation: 'shared' }) };
  await bench.start(servers);
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const modern = await bench.opened('two', 'stateless');
  const said = await client.call('bomber__environment', { text: 'HOME' });
  assert.match(said.reason, / \/$/, 'its HOME is not that of the gateway');
  const [pid] = await bench.pids('good');

  const bombing = client.call('bomber__fork');
  await until('it has met its limit', () => processesOf(BOMBER) >= PROCESSES / 4);
  for (let i = 0; i < 20; i++) {
    for (const caller of [client, modern]) {
      const attempt = await caller.call('good__unsafe');
      assert.equal(attempt.ending, 'RESULT', attempt.reason);
    }
    assert.ok(processesOf(BOMBER) <= PROCESSES, `${processesOf(BOMBER)} processes`);
  }
  // All processes of a removed server end with it.
  bench.gateway.rewrite({ mcpServers: { good: servers.good } });
  await until('all of it is gone', () => processesOf(BOMBER) === 0, 30_000);
  assert.notEqual((await bombing).ending, null);
  assert.deepEqual(await bench.pids('good'), [pid]);
  assert.equal((await client.call('good__unsafe')).ending, 'RESULT');

  // The server can be added again.
  bench.gateway.rewrite({ mcpServers: servers });
  await until('it serves again', async () => (await client.call('bomber__unsafe')).ending === 'RESULT', 30_000);
  assert.ok(markedProcesses(bench.mark).length <= 3);
  assert.deepEqual(bench.violations(['bomber', 'good']), []);
});

function processesOf(uid: number): number {
  try {
    return execFileSync('ps', ['-o', 'pid=,stat=', '-u', String(uid)], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line.trim() !== '' && !/ Z/.test(line)).length;
  } catch {
    return 0;
  }
}

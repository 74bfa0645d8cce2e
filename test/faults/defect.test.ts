import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { survivors } from '../support/processes.ts';
import { FaultBench, until } from './fault-bench.ts';
import { entriesOf } from './ledger/ledger-entry.ts';

/** Node itself loads this file into the gateway's process; the product has no code for it. */
const FAILPOINT = join(import.meta.dirname, 'failpoint.ts');

for (const kind of ['exception', 'rejection'] as const) {
  test(`fault:F42 an uncaught ${kind}: logged, not ready, the call in flight is answered, exit 70, nothing left, nothing lost`, async (t) => {
    const bench = new FaultBench(t);
    const env = { NODE_OPTIONS: `--import=${FAILPOINT}`, FAILPOINT: kind };
    await bench.start({ one: bench.stdio('one') }, {}, env);
    await bench.gateway.ready();
    const client = await bench.opened('one');
    const session = client.sessionId;
    assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
    await sleep(300);
    const slow = client.call('one__slow', { ms: 1_500 });
    await until('the call is in flight', () => entriesOf(bench.ledger('one'), 'executed').length === 2);
    const ready = new URL('/readyz', bench.gateway.mcpUrl);
    assert.equal((await fetch(ready)).status, 200);
    bench.gateway.process.kill('SIGUSR2');
    await until('no longer ready', async () =>
      fetch(ready).then(
        ({ status }) => status === 503,
        () => true,
      ),
    );
    const attempt = await slow;
    assert.equal(attempt.ending, 'RESULT', attempt.reason);
    assert.equal(await bench.gateway.exited, 70);
    assert.match(bench.gateway.stderr, /planted defect/);
    assert.deepEqual(await survivors(bench.mark, 2_000), []);
    // A supervisor would start the gateway again.
    await bench.start({ one: bench.stdio('one') });
    assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
    assert.equal(client.sessionId, session);
    assert.deepEqual(bench.violations(['one']), []);
  });
}

test('fault:F42 a defect while a call hangs: the drain is bounded, the caller gets UNKNOWN, exit 70', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') }, {}, { NODE_OPTIONS: `--import=${FAILPOINT}`, FAILPOINT: 'exception' });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const hanging = client.call('one__hang');
  await until('the call is in flight', () => entriesOf(bench.ledger('one'), 'executed').length === 1);
  const before = performance.now();
  bench.gateway.process.kill('SIGUSR2');
  assert.equal(await bench.gateway.exited, 70);
  assert.ok(performance.now() - before < 15_000);
  assert.equal((await hanging).ending, 'UNKNOWN', (await hanging).reason);
  assert.deepEqual(bench.violations(['one']), []);
});

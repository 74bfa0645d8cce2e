import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FaultBench, until } from './fault-bench.ts';

test('the reader of the log is gone: the gateway goes on serving, and ends on SIGTERM with exit 0', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') }, { log: { level: 'debug' } });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  bench.gateway.process.stdout!.destroy();
  bench.gateway.process.stderr!.destroy();
  // Each of these events writes to the log.
  for (let i = 0; i < 3; i++) {
    assert.equal((await client.call('one__crash_after')).ending, 'UNKNOWN');
    await until('the server is back', async () => (await client.call('one__unsafe')).ending === 'RESULT');
  }
  assert.equal(await bench.gateway.stop('SIGTERM'), 0);
});

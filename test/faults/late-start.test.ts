import assert from 'node:assert/strict';
import { test } from 'node:test';
import { markedProcesses, survivors } from '../support/processes.ts';
import { FaultBench, until } from './fault-bench.ts';

test('fault:F15 fault:F37 the gateway stops while an edited server still starts: both processes end, exit 0', async (t) => {
  const bench = new FaultBench(t);
  const one = bench.stdio('one') as { command: string; args: string[]; env: Record<string, string> };
  await bench.start({ one });
  await bench.gateway.ready();
  const slow = { ...one, command: 'sh', args: ['-c', 'sleep 5; exec "$@"', 'sh', one.command, ...one.args] };
  bench.gateway.rewrite({ mcpServers: { one: slow } });
  await until('the new process is starting beside the old one', () => markedProcesses(bench.mark).length > 1);
  const before = performance.now();
  assert.equal(await bench.gateway.stop('SIGTERM'), 0);
  assert.ok(performance.now() - before < 15_000);
  assert.deepEqual(await survivors(bench.mark, 0), []);
});

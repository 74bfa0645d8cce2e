import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WireClient } from '../support/wire-client.ts';
import { FaultBench, until } from './fault-bench.ts';

test('fault:F03 several processes of a server die together: the next calls are sent as soon as there are new ones', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  await bench.gateway.ready();
  const clients: WireClient[] = [];
  for (let i = 0; i < 4; i++) clients.push(await WireClient.open(bench.gateway.mcpUrl));
  for (const [i, client] of clients.entries()) await client.call('one__safe', { call: `before-${i}` });
  for (let round = 0; round < 3; round++) {
    const pids = await bench.pids('one');
    assert.ok(pids.length >= 4);
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await until('the deaths are known', async () => !(await bench.pids('one')).some((pid) => pids.includes(pid)));
    for (const [i, client] of clients.entries()) await client.call('one__safe', { call: `after-${round}-${i}` });
    assert.equal((await bench.status('one')).history.filter(({ to }) => to === 'failed').length, 0);
  }
});

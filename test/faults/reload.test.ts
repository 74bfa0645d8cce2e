import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FaultBench, type Servers, until } from './fault-bench.ts';
import { measured } from './measured.ts';

test('fault:F37 goal:G17 one of 20 servers is edited: 19 keep pid, sessions and calls; a bad file changes nothing; a good one takes effect within a second', async (t) => {
  const bench = new FaultBench(t);
  const servers: Servers = {};
  for (let i = 0; i < 20; i++) servers[`s${i}`] = bench.stdio(`s${i}`);
  await bench.start(servers);
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const untouched = ['s0', 's7', 's19'];
  for (const name of untouched) assert.equal((await client.call(`${name}__unsafe`)).ending, 'RESULT');
  const pidsOf = async (): Promise<Record<string, number[]>> => {
    const pids: Record<string, number[]> = {};
    for (const name of Object.keys(servers)) pids[name] = (await bench.pids(name)).sort();
    return pids;
  };
  const before = await pidsOf();
  const held = client.call('s7__slow', { ms: 2_500 });

  const changed = performance.now();
  const edited = bench.stdio('s3', 'stateful', { env: { EDITED: 'yes' } });
  bench.gateway.rewrite({ mcpServers: { ...servers, s3: edited } });
  await until(
    'the change is in force',
    async () => (await bench.pids('s3')).some((pid) => !before['s3']!.includes(pid)),
    30_000,
  );
  const tookMs = performance.now() - changed;
  measured(t, 'F37', 'from the write to the new process', tookMs, 'ms', 1_000);
  const said = await client.call('s3__environment', { text: 'EDITED' });
  assert.match(said.reason, /yes/);
  const after = await pidsOf();
  delete before['s3'];
  delete after['s3'];
  assert.deepEqual(after, before);
  assert.equal((await held).ending, 'RESULT');

  writeFileSync(join(bench.gateway.folder, 'trunkline.json'), '{ "mcpServers": { "s3": { "comand": 1 ');
  await until('the problem is told', async () => {
    const facts = await bench.gateway.control<{ configProblem: string | null }>('/api/v1/gateway');
    return facts.configProblem !== null;
  });
  for (const name of [...untouched, 's3']) assert.equal((await client.call(`${name}__unsafe`)).ending, 'RESULT');
  const kept = await pidsOf();
  delete kept['s3'];
  assert.deepEqual(kept, before);

  bench.gateway.rewrite({ mcpServers: servers });
  await until('the good file is in force', async () => {
    const facts = await bench.gateway.control<{ configProblem: string | null }>('/api/v1/gateway');
    return (
      facts.configProblem === null && !/yes/.test((await client.call('s3__environment', { text: 'EDITED' })).reason)
    );
  });
  assert.deepEqual(bench.violations(Object.keys(servers)), []);
});

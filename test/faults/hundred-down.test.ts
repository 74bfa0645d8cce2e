import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ServerStatus } from '../../src/model/server-state.ts';
import { WireClient } from '../support/wire-client.ts';
import { FaultBench, until } from './fault-bench.ts';
import { HundredDown, WAYS_DOWN } from './hundred-down.ts';

const REASONS = {
  missing: /does not exist/,
  exits: /exited with code 1|exit code 1/,
  refused: /ECONNREFUSED/,
  blackholed: /no connection within|no answer|did not start/,
  nameless: /ENOTFOUND/,
  unresolved: /took too long/,
} as const;

/** `npm run prove -- faults --goal G13` measures the times. */
test('fault:F01 goal:G13 a hundred servers that are down in different ways: the healthy serve, and each reports its reason', async (t) => {
  const bench = new FaultBench(t);
  const down = await HundredDown.open(bench.folder);
  t.after(() => down.close());
  // After all the others in the configuration.
  const healthy = { 'zeta-1': bench.stdio('zeta-1'), 'zeta-2': bench.stdio('zeta-2') };
  await bench.start({ ...down.servers, ...healthy }, { log: { level: 'error' } }, down.env);
  const client = await WireClient.open(bench.gateway.mcpUrl);
  const offered = async () => new Set((await client.toolNames()).map((name) => name.split('__')[0]));
  // On a busy machine the first lists may not wait for them: list_changed then notifies the clients.
  await until('the healthy ones', async () => (await offered()).size === 2, 60_000);
  assert.deepEqual(await offered(), new Set(Object.keys(healthy)));
  for (const name of Object.keys(healthy)) await client.call(`${name}__safe`, { call: name });

  let statuses: ServerStatus[] = [];
  const isKnown = ({ state, history }: ServerStatus): boolean =>
    state === 'running' || state === 'connected' || history.some(({ to }) => to === 'failed' || to === 'unreachable');
  await until(
    'each is known to be down',
    async () => {
      statuses = (await bench.gateway.control<{ servers: ServerStatus[] }>('/api/v1/servers')).servers;
      return statuses.every(isKnown);
    },
    120_000,
  );
  assert.equal(statuses.length, 102);
  for (const way of WAYS_DOWN) {
    const those = statuses.filter(({ name }) => name.startsWith(`${way}-`));
    assert.ok(those.length >= 10, way);
    for (const { name, history, health } of those) {
      const failed = history.find(({ to }) => to === 'failed');
      assert.match(failed?.reason ?? '', REASONS[way], `${name}: ${failed?.reason}`);
      assert.notEqual(health, 'healthy', name);
    }
  }
  // The summary of each names the phase that fails.
  const said = (name: string) => statuses.find((status) => status.name === name)?.phases?.summary ?? '';
  assert.match(said('unresolved-0'), /^slow to look its name up \(DNS\)/);
  assert.match(said('blackholed-7'), /^slow to (connect \(TCP\)|the first byte)/);
  assert.deepEqual(await offered(), new Set(Object.keys(healthy)));
});

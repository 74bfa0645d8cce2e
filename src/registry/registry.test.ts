import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../config/load-config.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { Secret } from '../model/secret.ts';
import { Registry, type RegistryChange } from './registry.ts';

async function state(...words: string[]): Promise<DesiredState> {
  const result = await loadConfig({ cwd: '/', env: {}, argvCommand: words });
  assert.ok(result.ok);
  return result.state;
}

function reported(change: RegistryChange): unknown {
  const { version, servers, settings } = change;
  const names = Object.entries(servers).filter(([, list]) => list.length > 0);
  return { version, ...Object.fromEntries(names), ...(settings.length === 0 ? {} : { settings }) };
}

test('a listener receives added and removed servers until it unsubscribes', async () => {
  const registry = new Registry(await state('a'));
  const heard: RegistryChange[] = [];
  const stop = registry.onChange((change) => heard.push(change));
  const next = await state('b');
  assert.equal(registry.replace(next), true);
  assert.deepEqual(reported(heard[0]!), { version: 2, added: ['b'], removed: ['a'] });
  assert.equal(heard[0]!.state, next);
  stop();
  registry.replace(await state('c'));
  assert.equal(heard.length, 1);
  assert.equal(registry.version, 3);
});

test('an equal state is no change, but its positions in the file are updated', async () => {
  const registry = new Registry(await state('a'));
  registry.onChange(() => assert.fail('a listener was called'));
  const same = await state('a');
  assert.equal(registry.replace(same), false);
  assert.equal(registry.version, 1);
  assert.equal(registry.state, same);
});

test('changed settings are named, keys of agents by their contents', async () => {
  const before = await state('a');
  const agent = (key: string): DesiredState => ({
    ...before,
    agents: new Map([['x', { name: 'x', key: new Secret(key), servers: null }]]),
  });
  const registry = new Registry(agent('one'));
  assert.equal(registry.replace(agent('one')), false);
  const heard: unknown[] = [];
  registry.onChange((change) => heard.push(reported(change)));
  registry.replace(agent('two'));
  registry.replace({ ...agent('two'), logLevel: 'debug' });
  assert.deepEqual(heard, [
    { version: 2, same: ['a'], settings: ['agents'] },
    { version: 3, same: ['a'], settings: ['logLevel'] },
  ]);
});

test('another token of the control API or of the metrics is a change, although secrets look alike', async () => {
  const before = await state('a');
  const tokens = (control: string, metrics: string): DesiredState => ({
    ...before,
    control: { ...before.control, token: new Secret(control) },
    metricsToken: new Secret(metrics),
  });
  const registry = new Registry(tokens('one', 'one'));
  assert.equal(registry.differs(tokens('one', 'one')), false);
  assert.deepEqual(registry.plan(tokens('two', 'one')).settings, ['control']);
  assert.deepEqual(registry.plan(tokens('one', 'two')).settings, ['metricsToken']);
});

test('changes during a report are reported after it, only the newest', async () => {
  const states = await Promise.all(['a', 'b', 'c', 'd'].map((word) => state(word)));
  const registry = new Registry(states[0]!);
  const heard: unknown[] = [];
  registry.onChange(({ version }) => {
    if (version !== 2) return;
    registry.replace(states[2]!);
    registry.replace(states[3]!);
  });
  registry.onChange((change) => heard.push(reported(change)));
  registry.replace(states[1]!);
  assert.deepEqual(heard, [
    { version: 2, added: ['b'], removed: ['a'] },
    { version: 4, added: ['d'], removed: ['b'] },
  ]);
});

test('a listener that throws does not keep others from their events', async () => {
  const registry = new Registry(await state('a'));
  let heard = 0;
  registry.onChange(() => {
    throw new Error('no');
  });
  registry.onChange(() => heard++);
  const [b, c] = [await state('b'), await state('c')];
  assert.throws(() => registry.replace(b), AggregateError);
  assert.throws(() => registry.replace(c), AggregateError);
  assert.equal(heard, 2);
});

test('another password of NATS or of the store is a change of the cluster, although secrets look alike', async () => {
  const cluster = (password: string): object => ({ nats: 'nats://n', secret: 's'.repeat(32), user: 'u', password });
  const read = async (settings: object): Promise<DesiredState> => {
    const text = JSON.stringify({ mcpServers: {}, cluster: settings });
    const result = await loadConfig({ cwd: '/', env: {}, inline: [{ label: '<test>', text }] });
    assert.ok(result.ok, JSON.stringify(result));
    return result.state;
  };
  const registry = new Registry(await read(cluster('one')));
  assert.equal(registry.differs(await read(cluster('one'))), false);
  assert.equal(registry.differs(await read(cluster('two'))), true);
  const stored = (password: string): object => ({ ...cluster('one'), store: `postgresql://u:${password}@db/x` });
  registry.replace(await read(stored('one')));
  assert.equal(registry.differs(await read(stored('one'))), false);
  assert.equal(registry.differs(await read(stored('two'))), true);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  type ScriptedTransport,
  SILENCE,
  scriptedTool,
  statefulScript,
} from '../../../test/support/scripted-server.ts';
import { answerText, clientOf, serverOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import type { ClientProfile } from '../../model/client-profile.ts';

const CHANGED = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };

/** A server whose processes list `base` and, each of them, the further tools that the test sets. */
async function rig() {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const more = new Map<ScriptedTransport, string[]>();
  let base = ['base'];
  script.handlers['tools/list'] = (_params, link) => ({
    tools: [...base, ...(more.get(link) ?? [])].map(scriptedTool),
  });
  await bench.run([serverOf('a'), script]);
  const use = async (client: ClientProfile) => {
    answerText(await bench.call('a', toolCall(client)));
    await settled();
  };
  return {
    bench,
    script,
    use,
    names: (client: ClientProfile) =>
      bench.set.knownCatalog('a', client)?.lists.tools.items.map(({ key }) => key) ?? null,
    /** The process lists further tools, and sends a notification. */
    async grows(link: ScriptedTransport, ...names: string[]) {
      more.set(link, names);
      link.deliver(CHANGED);
      await bench.clock.advance(1_100);
      await settled();
    },
    becomes(...names: string[]) {
      base = names;
    },
  };
}

const [one, two, idle] = [clientOf('one'), clientOf('two'), clientOf('idle')];

test('S2.6 the lists of a session’s process are shown, and reported by its key, to that session only', async () => {
  const { bench, script, use, names, grows } = await rig();
  await use(one);
  await use(two);
  bench.events.changed.length = 0;
  await grows(script.links[0]!, 'extra');
  assert.deepEqual([names(one), names(two), names(idle)], [['base', 'extra'], ['base'], ['base']]);
  assert.deepEqual(
    bench.events.changed.map(({ lists, key }) => ({ lists, key })),
    [{ lists: ['tools'], key: 'one' }],
  );
  assert.deepEqual(bench.set.status('a')?.tools, ['base'], 'the status says what a new session gets');
  await bench.clock.advance(10_000);
  const saved = [...bench.stores.knownCatalogs.load()].map(({ lists }) => lists.tools.items.length);
  assert.deepEqual(saved, [1], 'the lists of a session are not stored');
});

test('S2.6 sessions with equal lists share one copy, or none if they equal the common list', async () => {
  const { bench, script, use, grows } = await rig();
  for (const client of [one, two, clientOf('three')]) await use(client);
  const known = (client: ClientProfile) => bench.set.knownCatalog('a', client);
  assert.equal(known(one), known(idle));
  assert.equal(known(two), known(idle));
  await grows(script.links[0]!, 'extra');
  await grows(script.links[1]!, 'extra');
  assert.equal(known(one), known(two));
  assert.notEqual(known(one), known(idle));
  await grows(script.links[0]!);
  assert.equal(known(one), known(idle), 'the session shares the common list again');
});

test('S2.6 a process that lists other items than the one before is listed when it begins', async () => {
  const { script, use, names, becomes, bench } = await rig();
  await use(one);
  becomes('other');
  await use(two);
  assert.deepEqual([names(one), names(two)], [['base'], ['other']]);
  await settled();
  assert.deepEqual(names(idle), ['other'], 'the lists of a new process are read again');
  assert.deepEqual(names(one), ['base'], 'the older process still lists its own tools');
  assert.equal(script.links.length, 3);
  const own = bench.events.changed.filter(({ key }) => key === 'one');
  assert.ok(
    own.every(({ lists }) => lists.length === 0),
    'the lists of this session have not changed',
  );
});

test('S2.6 a session whose process has ended gets the lists of a new process, and a notification', async () => {
  const { bench, script, use, names, grows } = await rig();
  await use(one);
  await grows(script.links[0]!, 'extra');
  bench.events.changed.length = 0;
  script.links[0]!.end();
  assert.deepEqual(names(one), ['base']);
  assert.deepEqual(
    bench.events.changed.map(({ lists, key }) => ({ lists, key })),
    [{ lists: ['tools'], key: 'one' }],
  );
  await settled();
  await bench.set.close('shutdown');
  await settled();
  assert.equal(bench.clock.pending, 0);
});

test('S2.6 a client waits up to two seconds for lists that a process has just reported, also while they are read', async () => {
  const { bench, script, use, names, becomes } = await rig();
  await use(one);
  await use(two);
  await bench.clock.advance(5_000);
  const listed = async (client: ClientProfile, ms: number): Promise<boolean | 'waits'> => {
    const found = bench.set.awaitPendingLists('a', toolCall(client));
    await settled();
    await bench.clock.advance(ms);
    return Promise.race([found, Promise.resolve('waits' as const)]);
  };
  assert.deepEqual([await listed(one, 0), await listed(idle, 0)], [false, false], 'nothing is due');
  becomes('base', 'extra');
  const [link] = script.links;
  link!.deliver(CHANGED);
  await settled();
  assert.equal(await listed(two, 0), false, 'the lists of another process do not delay this session');
  assert.deepEqual([await listed(one, 10), names(one)], ['waits', ['base']]);
  assert.deepEqual([await listed(one, 10), names(one)], [true, ['base', 'extra']]);
  // The next change is read a second after the last one.
  becomes('base', 'extra', 'more');
  link!.deliver(CHANGED);
  await settled();
  assert.deepEqual([await listed(one, 1_000), names(one)], [true, ['base', 'extra', 'more']]);
  script.handlers['tools/list'] = () => SILENCE;
  link!.deliver(CHANGED);
  await settled();
  await bench.clock.advance(1_000);
  assert.equal(await listed(one, 1_990), 'waits', 'the list is being read');
  assert.equal(await listed(one, 2_000), true);
});

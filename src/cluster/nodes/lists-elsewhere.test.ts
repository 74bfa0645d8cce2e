import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ClusterBench,
  clientOf,
  type PlayedNode,
  remoteSpec,
  serverNamed,
} from '../../../test/support/cluster-bench.ts';
import { settled } from '../../../test/support/fake-clock.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
import { notification } from '../../protocol/compose.ts';

const SOON_MS = 500;

async function on(run: (bench: ClusterBench) => Promise<void>): Promise<void> {
  const bench = new ClusterBench();
  try {
    await run(bench);
  } finally {
    await bench.dispose();
  }
}

function lists(node: PlayedNode, ...tools: string[]): void {
  node.local.catalogs.set('memory', serverCatalog('memory', { tools: tools.map((name) => tool(name)) }));
}

/** The tools that the node shows a session. */
function shown({ cluster }: PlayedNode, sessionId = 's1'): readonly string[] | undefined {
  return cluster.upstreams.knownCatalog('memory', clientOf(sessionId))?.lists.tools.items.map(({ key }) => key);
}

test('check:G3 check:C9 what one node heard of the lists of an HTTP server the others look at themselves, and tell nobody', () =>
  on(async (bench) => {
    const memory = serverNamed('memory', { transport: remoteSpec });
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    a.cluster.events.relisted!('memory');
    await bench.pass(SOON_MS);
    assert.deepEqual([a.local.relisted, b.local.relisted], [[], ['memory']]);
    // What b finds is another list: whoever reads it there is to know, and nobody looks again for it.
    assert.deepEqual(a.events.listedElsewhereOf, []);
    b.cluster.events.catalogChanged('memory', '{}', ['tools']);
    await bench.pass(SOON_MS);
    assert.deepEqual([a.events.listedElsewhereOf, b.events.listedElsewhereOf], [['memory'], []]);
    assert.deepEqual([a.local.relisted, b.local.relisted], [[], ['memory']]);
    // Who comes later does not know whether it was in time.
    const c = await bench.join('c', [memory]);
    await bench.pass(SOON_MS);
    assert.deepEqual(c.local.relisted, ['memory']);
  }));

test('check:G3 S0.18 what a process of a session told last is what all nodes show, until another one tells or its node is gone', () =>
  on(async (bench) => {
    const memory = serverNamed('memory');
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    for (const node of [a, b]) lists(node, 'old');
    lists(a, 'old', 'grown');
    a.cluster.events.relisted!('memory');
    await bench.pass(SOON_MS);
    assert.deepEqual(
      [shown(a), shown(b)],
      [
        ['old', 'grown'],
        ['old', 'grown'],
      ],
    );
    assert.ok(b.events.heard.includes('catalogChanged memory'), 'clients of b are told');
    assert.deepEqual(b.local.relisted, [], 'its own process would say nothing of it');

    lists(b, 'old', 'other');
    b.cluster.events.relisted!('memory');
    await bench.pass(SOON_MS);
    assert.deepEqual(
      [shown(a), shown(b)],
      [
        ['old', 'other'],
        ['old', 'other'],
      ],
    );

    await bench.until(b.cluster.close());
    await bench.pass(3_000);
    assert.deepEqual(shown(a), ['old', 'grown']);
  }));

test('each node shows what its own process of a server for everybody lists: calls find nothing else there', () =>
  on(async (bench) => {
    const memory = serverNamed('memory', { isolation: 'shared' });
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    lists(a, 'grown');
    lists(b, 'old');
    a.cluster.events.relisted!('memory');
    await bench.pass(SOON_MS);
    assert.deepEqual(shown(b), ['old']);
  }));

test('check:C9 an update of a resource that belongs to no session reaches every node that has the server; what nobody waits for does not', () =>
  on(async (bench) => {
    const memory = serverNamed('memory', { transport: remoteSpec });
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    const tell = (method: string, sessionId: string | null = null) =>
      a.cluster.events.notification('memory', sessionId, notification(method, '{"uri":"x://1"}', 'stateful'), 'k');
    tell('notifications/resources/updated');
    tell('notifications/message');
    tell('notifications/resources/updated', 'of-a-session');
    a.cluster.events.outdated('memory', null);
    a.cluster.events.connectionChanged('memory', 'k', 'missed');
    a.cluster.events.connectionChanged('memory', 'k', 'ended');
    await bench.pass(SOON_MS);
    assert.deepEqual(b.events.heard, [
      'notification memory null notifications/resources/updated',
      'outdated memory',
      'connectionChanged memory k missed',
    ]);
  }));

test('check:G3 check:C9 who is asked for what another home has just heard of knows it at once, and waits for nobody who is silent', () =>
  on(async (bench) => {
    const memory = serverNamed('memory', { transport: remoteSpec });
    const a = await bench.join('a', [memory]);
    assert.equal(await a.cluster.upstreams.caughtUp!('memory'), false, 'there is nobody to hear it from');
    const b = await bench.join('b', [memory]);
    let listed = (): void => {};
    b.local.relist = () => new Promise((resolve) => (listed = resolve));
    a.cluster.events.relisted!('memory');
    let known = false;
    const caughtUp = b.cluster.upstreams.caughtUp!('memory').then(() => {
      known = true;
    });
    await settled();
    assert.equal(known, false, 'it is being listed');
    listed();
    await caughtUp;

    a.cut();
    await bench.until(b.cluster.upstreams.caughtUp!('memory'));
  }));

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  onNodes,
  type PlayedNode,
  remoteSpec,
  serverNamed,
  TestExchange,
} from '../../../test/support/cluster-bench.ts';
import { settled } from '../../../test/support/fake-clock.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { notification } from '../../protocol/compose.ts';

const SOON_MS = 500;

function lists(node: PlayedNode, ...tools: string[]): void {
  node.local.catalogs.set('memory', serverCatalog('memory', { tools: tools.map((name) => tool(name)) }));
}

/** What the process of this session at the node lists. */
function ownLists({ local }: PlayedNode, session: string, ...tools: string[]): void {
  const own = local.own.get('memory') ?? new Map<string, ServerCatalog>();
  local.own.set(
    'memory',
    own.set(session, { ...serverCatalog('memory', { tools: tools.map((name) => tool(name)) }), own: true }),
  );
}

/** The tools that the node shows a session. */
function shown({ cluster }: PlayedNode, sessionId = 's1'): readonly string[] | undefined {
  return cluster.upstreams.knownCatalog('memory', clientOf(sessionId))?.lists.tools.items.map(({ key }) => key);
}

test('check:G3 check:C9 the other nodes list an HTTP server again when one was notified, without notifying clients', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory', { transport: remoteSpec });
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    a.cluster.events.relisted!('memory');
    await bench.pass(SOON_MS);
    assert.deepEqual([a.local.relisted, b.local.relisted], [[], ['memory']]);
    // b finds a changed list: a is notified that another node lists anew, and no node lists the server again.
    assert.deepEqual(a.events.listedElsewhereOf, []);
    b.cluster.events.catalogChanged('memory', '{}', ['tools']);
    await bench.pass(SOON_MS);
    assert.deepEqual([a.events.listedElsewhereOf, b.events.listedElsewhereOf], [['memory'], []]);
    assert.deepEqual([a.local.relisted, b.local.relisted], [[], ['memory']]);
    // A node that joins later cannot know whether its list is newer, so it lists the server again.
    const c = await bench.join('c', [memory]);
    await bench.pass(SOON_MS);
    assert.deepEqual(c.local.relisted, ['memory']);
  }));

test('S2.6 check:G3 S0.18 the lists of one session’s process are shown to that session at all nodes, and to no other', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory');
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    const c = await bench.join('c', []);
    for (const node of [a, b]) lists(node, 'old');
    const seen = (session: string) => [a, b, c].map((node) => shown(node, session));
    await bench.until(c.cluster.upstreams.catalog('memory', clientOf('s2'), 1_000));
    ownLists(a, 's1', 'old', 'grown');
    a.cluster.events.catalogChanged('memory', '{}', ['tools'], 's1');
    await bench.pass(SOON_MS);
    assert.deepEqual(seen('s1'), Array(3).fill(['old', 'grown']));
    assert.deepEqual(seen('s2'), Array(3).fill(['old']));
    for (const { events } of [b, c]) assert.ok(events.heard.includes('catalogChanged memory s1'));

    // The list of another session is equal: it is not read again.
    const asked: string[] = [];
    const kept = a.local.own.get('memory')!;
    kept.get = (key) => {
      if (key !== '') asked.push(key);
      return Map.prototype.get.call(kept, key);
    };
    ownLists(a, 's3', 'old', 'grown');
    a.cluster.events.catalogChanged('memory', '{}', ['tools'], 's3');
    await bench.pass(SOON_MS);
    assert.deepEqual([shown(b, 's3'), shown(c, 's3'), asked], [['old', 'grown'], ['old', 'grown'], []]);

    a.local.own.get('memory')!.delete('s1');
    a.cluster.events.catalogChanged('memory', '{}', ['tools'], 's1');
    await bench.pass(SOON_MS);
    assert.deepEqual(seen('s1'), Array(3).fill(['old']), 'it has the list of a fresh process again');
    await bench.until(a.cluster.close());
    await bench.pass(3_000);
    assert.deepEqual(shown(b, 's3'), ['old'], 'it has the list of b after its node has left');
  }));

test('S2.6 check:G3 check:C9 a session is shown what its shared process lists, and is notified of changes; no other session is', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory', { isolation: 'shared' });
    const opened = new Map<string, string>();
    const openers = () => ({ openerOf: (id: string) => opened.get(id) ?? null, passOn: () => {} });
    const [a, b] = [await bench.join('a', [memory], { openers }), await bench.join('b', [memory], { openers })];
    opened.set('s1', a.bus.peer).set('s2', b.bus.peer);
    const list = async (node: PlayedNode, ...tools: string[]): Promise<void> => {
      lists(node, ...tools);
      node.cluster.events.catalogChanged('memory', '{}', ['tools']);
      await bench.pass(SOON_MS);
    };
    const from = (session: string): string => b.cluster.upstreams.listSourceKey!(clientOf(session));
    for (const node of [a, b]) await list(node, 'old');
    assert.deepEqual([from('s1'), from('s2')], ['', '']);
    b.events.heard.length = 0;
    await list(a, 'old', 'grown');
    assert.deepEqual(shown(b, 's1'), ['old', 'grown']);
    assert.deepEqual(shown(b, 's2'), ['old']);
    assert.deepEqual(shown(a, 's2'), ['old']);
    assert.notEqual(from('s1'), from('s2'));
    assert.equal(from('s2'), '');
    assert.ok(
      b.events.heard.some((word) => word.startsWith('catalogChanged memory')),
      b.events.heard.join(),
    );
    await list(b, 'old', 'grown');
    assert.equal(from('s1'), '', 'both list the same');
  }));

test('check:C9 an update without a session reaches every node that has the server; one without a subscriber does not', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory', { transport: remoteSpec });
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    const tell = (method: string, sessionId: string | null = null) =>
      a.cluster.events.notification('memory', sessionId, notification(method, '{"uri":"x://1"}', 'stateful'), 'k');
    tell('notifications/resources/updated');
    tell('notifications/message');
    tell('notifications/resources/updated', 'of-a-session');
    a.cluster.events.contentChanged('memory', null);
    a.cluster.events.connectionChanged('memory', 'k', 'missed');
    a.cluster.events.connectionChanged('memory', 'k', 'ended');
    await bench.pass(SOON_MS);
    assert.deepEqual(b.events.heard, [
      // One for watchers of any process that serves the key, one for watchers of the process at a.
      'notification memory null notifications/resources/updated',
      'notification memory null notifications/resources/updated',
      'outdated memory',
      'connectionChanged memory k missed',
      `connectionChanged memory k @${a.bus.peer} missed`,
    ]);
  }));

test('S2.6 check:G3 a search for a name waits for pending lists of this node, with or without other nodes', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory');
    const a = await bench.join('a', [memory]);
    lists(a, 'old');
    let due = true;
    Object.assign(a.local, {
      awaitPendingLists: () => {
        if (due) lists(a, 'old', 'grown');
        return Promise.resolve(due);
      },
    });
    const found = (name: string) =>
      a.cluster.upstreams.awaitPendingLists!('memory', new TestExchange('s1'), 'tools', name);
    assert.equal(await found('grown'), true);
    assert.deepEqual(shown(a), ['old', 'grown']);
    due = false;
    assert.equal(await found('nothing'), false);
    due = true;
    lists(a, 'old');
    await bench.join('b', [memory]);
    assert.equal(await bench.until(found('grown')), true);
    assert.deepEqual(shown(a), ['old', 'grown']);
  }));

test('check:G3 check:C9 a tool of an HTTP server that another instance shows is searched for at the server; an invented one is not', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory', { transport: remoteSpec });
    const a = await bench.join('a', [memory]);
    const foundElsewhere = (name: string) =>
      b.cluster.upstreams.awaitPendingLists!('memory', new TestExchange('s1'), 'tools', name);
    assert.equal(
      await a.cluster.upstreams.awaitPendingLists!('memory', new TestExchange('s1'), 'tools', 'grown'),
      false,
      'there is no other node',
    );
    const b = await bench.join('b', [memory]);
    lists(b, 'old');
    // No notification of the other list was sent: a has just listed the server for the first time.
    lists(a, 'old', 'grown');
    let listed = (): void => {};
    b.local.relistFor = (server) => {
      b.local.relisted.push(`${server} anew`);
      return new Promise((resolve) => (listed = resolve));
    };
    let known = false;
    const waits = foundElsewhere('grown').then((found) => (known = found));
    await settled();
    assert.deepEqual([known, b.local.relisted, a.local.relisted], [false, ['memory anew'], []], 'it is being listed');
    lists(b, 'old', 'grown');
    listed();
    assert.equal(await waits, true);
    assert.equal(await foundElsewhere('grown'), true);
    assert.equal(await foundElsewhere('nothing'), false);
    assert.deepEqual(b.local.relisted, ['memory anew']);
  }));

test('a name that only another node lists is searched for at the server at most once a second', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory', { transport: remoteSpec });
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    lists(b, 'old');
    lists(a, 'old', 'of-another');
    const foundElsewhere = () =>
      b.cluster.upstreams.awaitPendingLists!('memory', new TestExchange('s1'), 'tools', 'of-another');
    for (let i = 0; i < 5; i++) await foundElsewhere();
    assert.deepEqual(b.local.relisted, ['memory anew']);
    await bench.pass(1_000);
    for (let i = 0; i < 5; i++) await foundElsewhere();
    assert.deepEqual(b.local.relisted, ['memory anew', 'memory anew']);
  }));

test('the node does not search at the server for a client that has gone meanwhile', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory', { transport: remoteSpec });
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    lists(b, 'old');
    lists(a, 'old', 'grown');
    const exchange = new TestExchange('s1');
    const found = b.cluster.upstreams.awaitPendingLists!('memory', exchange, 'tools', 'grown');
    exchange.cancel('the session was ended');
    assert.equal(await bench.until(found), false);
    assert.deepEqual(b.local.relisted, []);
  }));

test('check:G3 check:C9 changes announced by a session’s process at another node are read before a name is unknown, without waiting for silent nodes', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory');
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    for (const node of [a, b]) lists(node, 'old');
    const foundElsewhere = () =>
      b.cluster.upstreams.awaitPendingLists!('memory', new TestExchange('s1'), 'tools', 'grown');
    ownLists(a, 's1', 'old', 'grown');
    a.cluster.events.catalogChanged('memory', '{}', ['tools'], 's1');
    assert.equal(await bench.until(foundElsewhere()), true);
    assert.deepEqual([shown(b, 's1'), shown(b, 's2')], [['old', 'grown'], ['old']]);

    a.cut();
    assert.equal(await bench.until(foundElsewhere()), true);
  }));

test('check:C9 other nodes are asked once a second for unknown names, and names that exist by then are found', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory');
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [])];
    lists(a, 'old');
    let read = 0;
    a.local.catalog = async () => {
      read++;
      return a.local.catalogs.get('memory')!;
    };
    const find = (name: string) =>
      b.cluster.upstreams.awaitPendingLists!('memory', new TestExchange('s1'), 'tools', name).then(() => shown(b));
    assert.deepEqual([await find('nothing'), read], [['old'], 1]);
    lists(a, 'old', 'grown');
    const finding = Promise.all(['nothing', 'nonsense', 'grown'].map(find));
    await bench.pass(900);
    assert.equal(read, 1);
    for (const found of await bench.until(finding)) assert.deepEqual(found, ['old', 'grown']);
    assert.equal(read, 2);
    // Searches that find their name are not limited.
    await bench.pass(1_000);
    for (let i = 0; i < 3; i++) await find('grown');
    assert.equal(read, 5);
  }));

test('a server without an instance here is read at its node before a name of it is unknown', () =>
  onNodes(async (bench) => {
    const [a, b] = [await bench.join('a', [serverNamed('memory')]), await bench.join('b', [])];
    lists(a, 'old');
    const client = clientOf('s1');
    await bench.until(b.cluster.upstreams.catalog('memory', client, 1_000));
    lists(a, 'old', 'grown');
    assert.deepEqual(shown(b), ['old']);
    assert.equal(
      await b.cluster.upstreams.awaitPendingLists!('memory', new TestExchange('s1'), 'tools', 'grown'),
      true,
    );
    assert.deepEqual(shown(b), ['old', 'grown']);
  }));

test('check:C9 S0.18 a client’s lists come from the process that serves it, also at a node that has not sent it a call yet', () =>
  onNodes(async (bench) => {
    const memory = serverNamed('memory');
    const [a, b] = [await bench.join('a', [memory]), await bench.join('b', [memory])];
    const owned = ({ cluster }: PlayedNode, sessionId: string | null = 's1') =>
      cluster.upstreams.ownsConnectionElsewhere!('memory', clientOf(sessionId));
    assert.deepEqual([await owned(a), await owned(b)], [false, false], 'no process serves it');
    const exchange = new TestExchange('s1');
    await bench.until(a.cluster.upstreams.call('memory', exchange.request, exchange));
    assert.deepEqual([await owned(a), await owned(b), await owned(b, 's2')], [false, true, false]);
    // Its process has ended there since.
    a.local.ownsConnection = () => false;
    assert.equal(await owned(b), false);
    a.cut();
    assert.equal(await bench.until(owned(b)), false);
  }));

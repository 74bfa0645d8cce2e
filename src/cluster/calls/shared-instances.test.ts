import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  callOf,
  onNodes,
  type PlayedNode,
  serverNamed,
  TestExchange,
  wordOf,
} from '../../../test/support/cluster-bench.ts';
import { record, SessionRecordsBench } from '../../../test/support/session-records-bench.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { rendezvous } from '../nodes/rendezvous.ts';

const memory = serverNamed('memory', { isolation: 'shared' });
const SESSIONS = Array.from({ length: 12 }, (_, i) => `session-${i}`);

/** Three nodes with the server, and a fourth without it, that agree on who opened which session. */
const four = (
  run: (
    nodes: readonly PlayedNode[],
    opened: Map<string, string>,
    pass: (ms: number) => Promise<void>,
  ) => Promise<void>,
) =>
  onNodes(async (bench) => {
    const opened = new Map<string, string>();
    const openers = () => ({ openerOf: (id: string) => opened.get(id) ?? null, passOn: () => {} });
    const nodes: PlayedNode[] = [];
    for (const id of ['a', 'b', 'c']) nodes.push(await bench.join(id, [memory], { openers }));
    nodes.push(await bench.join('d', [], { openers }));
    await bench.pass(800);
    await run(nodes, opened, (ms) => bench.pass(ms));
  });

const served = async (node: PlayedNode, session: string): Promise<string> =>
  JSON.parse(wordOf(await callOf(node, 'memory', session))).node;

/** The one node that serves the calls of the session, whichever node receives them. */
async function servedBy(nodes: readonly PlayedNode[], session: string): Promise<string> {
  const at = new Set<string>();
  for (const node of nodes) at.add(await served(node, session));
  assert.equal(at.size, 1, `${session} at ${[...at]}`);
  return [...at][0]!;
}

test('check:C9 a session uses the shared process of the node that opened it; without one, all nodes choose the same node', () =>
  four(async (nodes, opened, pass) => {
    const [a, b] = nodes as [PlayedNode, PlayedNode];
    opened.set('s1', a.bus.peer);
    assert.equal(await servedBy(nodes, 's1'), 'a');
    // The server fails there, and later runs again.
    a.local.states.set('memory', { name: 'memory', state: 'failed' } as ServerStatus);
    a.cluster.events.statusChanged('memory', a.local.status('memory')!);
    await pass(1_500);
    const instead = await servedBy(nodes, 's1');
    assert.notEqual(instead, 'a');
    const lost = nodes.flatMap(({ id, events }) =>
      events.heard.filter((word) => word === 'stateLost memory s1').map(() => id),
    );
    assert.ok(lost.includes('d'), 'a node that had sent it calls notifies the session');
    a.local.states.set('memory', { name: 'memory', state: 'running' } as ServerStatus);
    a.cluster.events.statusChanged('memory', a.local.status('memory')!);
    await pass(1_500);
    assert.equal(await servedBy(nodes, 's1'), 'a');

    const chosen = new Map<string, string>();
    for (const session of SESSIONS) chosen.set(session, await servedBy(nodes, session));
    assert.deepEqual([...new Set(chosen.values())].sort(), ['a', 'b', 'c']);
    b.cluster.drain();
    await pass(300);
    for (const [session, node] of chosen) {
      const now = await servedBy(nodes, session);
      if (node === 'b') assert.notEqual(now, 'b');
      else assert.equal(now, node, 'only sessions of the draining node move');
    }
  }));

test('a session whose calls come to the node of its process is notified when that node has to send them to another', () =>
  four(async (nodes, opened, pass) => {
    const [a, b] = nodes as [PlayedNode, PlayedNode];
    opened.set('s1', a.bus.peer);
    opened.set('s2', b.bus.peer);
    const notices = (): string[] => a.events.heard.filter((word) => word.startsWith('stateLost'));
    for (const session of ['s1', 's2', 's1']) await served(a, session);
    assert.deepEqual(notices(), []);
    a.cluster.drain();
    await pass(300);
    for (let i = 0; i < 2; i++) for (const session of ['s1', 's2']) assert.notEqual(await served(a, session), 'a');
    assert.deepEqual(notices(), ['stateLost memory s1']);
  }));

test('calls without a session, of sessions that end with their stream, and of a node without the bus stay at their node', () =>
  four(async (nodes, opened, pass) => {
    const [a, b] = nodes as [PlayedNode, PlayedNode];
    opened.set('s1', a.bus.peer);
    const called = async (exchange: TestExchange): Promise<string> =>
      JSON.parse(wordOf(await b.cluster.upstreams.call('memory', exchange.request, exchange))).node;
    assert.equal(await called(new TestExchange(null)), 'b');
    const passing = new TestExchange('s1');
    Object.assign(passing.client, { passing: true });
    assert.equal(await called(passing), 'b');
    assert.equal(await served(b, 's1'), 'a');
    b.cut();
    await pass(3_000);
    assert.equal(await served(b, 's1'), 'b');
  }));

test('a session whose node is gone is passed on to the node that all choose for it, and stays there when another joins', async () => {
  const bench = new SessionRecordsBench();
  const a = await bench.node('a');
  const b = await bench.node('b');
  const c = await bench.node('c');
  a.put(record('s1'));
  assert.notEqual(a.openerOf('s1'), null, 'the first call comes before the record is written');
  await bench.pass(500);
  const first = b.openerOf('s1');
  assert.ok(first !== null && first === a.openerOf('s1'));
  b.passOn('s1');
  await bench.pass(500);
  assert.equal(b.openerOf('s1'), first, 'its node is there');
  bench.leave('a');
  b.passOn('s1');
  c.passOn('s1');
  await bench.pass(500);
  const next = b.openerOf('s1');
  assert.notEqual(next, first);
  assert.equal(c.openerOf('s1'), next);
  await bench.node('d');
  for (const records of [b, c]) records.passOn('s1');
  await bench.pass(500);
  assert.deepEqual([b.openerOf('s1'), c.openerOf('s1')], [next, next]);
  await bench.close();
});

test('ids are distributed evenly among peers, and only the ids of a peer that leaves move', () => {
  const peers = ['459ef2f2769d6930', '459ef2f2769d6931', '9ae59ee5a584c418', 'c553788bbe2d9bc3'];
  const counts = new Map<string, number>();
  for (let i = 0; i < 4_000; i++) {
    const chosen = rendezvous(`id-${i}`, peers)!;
    counts.set(chosen, (counts.get(chosen) ?? 0) + 1);
    assert.equal(rendezvous(`id-${i}`, peers.toReversed()), chosen);
    const rest = peers.filter((peer) => peer !== peers[0]);
    if (chosen !== peers[0]) assert.equal(rendezvous(`id-${i}`, rest), chosen);
  }
  for (const count of counts.values()) assert.ok(count > 850 && count < 1_150, String(count));
  assert.equal(counts.size, 4);
  assert.equal(rendezvous('id', []), null);
});

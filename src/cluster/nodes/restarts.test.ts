import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onNodes, type PlayedNode, remoteSpec, serverNamed } from '../../../test/support/cluster-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { allRestarted } from './instances.ts';

const web = serverNamed('web', { transport: remoteSpec });
const one = serverNamed('one', { singleton: true });

function restartedAt(...nodes: PlayedNode[]): string[] {
  return nodes.flatMap(({ id, local }) => local.restarted.map((server) => `${server} at ${id}`));
}

test('S0.18 a restart covers the whole gateway: every node that has the server, wherever it is requested', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [web]);
    const b = await nodes.join('b', [web]);
    const c = await nodes.join('c', []);
    const asked: Buffer[] = [];
    nodes.hub.open().subscribe('trunkline.call.*', ({ payload }) => void asked.push(payload));
    await nodes.until(a.cluster.upstreams.restart('web'));
    assert.ok(asked.some((payload) => payload.includes('trunkline.restart')));
    assert.deepEqual(restartedAt(a, b, c), ['web at a', 'web at b']);
    assert.deepEqual(
      asked.filter((payload) => payload.includes('trunkline.offer')),
      [],
      'this node shows its own status',
    );
    await nodes.until(c.cluster.upstreams.restart('web'));
    assert.deepEqual(restartedAt(a, b, c), ['web at a', 'web at a', 'web at b', 'web at b']);
  }));

test('a singleton is restarted where it runs, whichever node gets the request', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [one]);
    const b = await nodes.join('b', [one]);
    const c = await nodes.join('c', []);
    await nodes.pass(1_500);
    assert.deepEqual([a.local.desired.has('one'), b.local.desired.has('one')], [true, false]);
    const status = { name: 'one', state: 'running' } as ServerStatus;
    a.local.states.set('one', status);
    a.cluster.events.statusChanged('one', status);
    await nodes.pass(500);
    for (const { cluster } of [a, b, c]) await nodes.until(cluster.upstreams.restart('one'));
    assert.deepEqual(restartedAt(a, b, c), ['one at a', 'one at a', 'one at a']);
  }));

test('the node that restarted a server elsewhere then shows its new status', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', []), await nodes.join('b', [web])];
    let restarts = 0;
    const says = (): void => {
      b.local.states.set('web', { name: 'web', state: 'connected', restarts } as ServerStatus);
    };
    says();
    b.local.restart = async () => {
      restarts++;
      says();
      b.cluster.events.statusChanged('web', b.local.states.get('web')!);
    };
    for (const expected of [1, 2, 3]) {
      // The status is published later: the node that requested the restart reads it.
      await nodes.until(a.cluster.upstreams.restart('web'));
      assert.equal(a.cluster.upstreams.status('web')?.restarts, expected);
    }
  }));

test('if one node cannot restart it the others do, and the operator learns which one failed', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [web]);
    const b = await nodes.join('b', [web]);
    const c = await nodes.join('c', [web]);
    // Its files no longer have the server, and the other nodes do not know that yet.
    b.local.desired = new Map();
    await assert.rejects(nodes.until(a.cluster.upstreams.restart('web')), {
      code: 'NOT_SENT',
      message: 'web at node b: there is no server web; restarted at node c, this node',
    });
    assert.deepEqual(restartedAt(a, c), ['web at a', 'web at c']);
  }));

test('all failed restarts are reported, and UNKNOWN where one may have happened', async () => {
  const failing = async (code: 'NOT_SENT' | 'UNKNOWN', text: string): Promise<void> => {
    throw new GatewayError(code, text);
  };
  const restarts = [
    { at: 'node a', done: failing('NOT_SENT', 'connection refused') },
    { at: 'node b', done: Promise.resolve() },
    { at: 'this node', done: failing('UNKNOWN', 'it sent nothing for 1500 ms') },
  ];
  await assert.rejects(allRestarted('web', restarts), {
    code: 'UNKNOWN',
    message: 'web at node a: connection refused; at this node: it sent nothing for 1500 ms; restarted at node b',
  });
});

const own = serverNamed('own', { isolation: 'session' });
const all = serverNamed('all', { isolation: 'shared' });

test('fault:F28 a node without a lease ends no process of a server that needs one', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [own, one]), await nodes.join('b', [own, one])];
    await nodes.pass(1_500);
    b.cut();
    // The node does not reach NATS, and its lease has not expired yet.
    await assert.rejects(
      b.cluster.upstreams.restart('own'),
      /^GatewayError: nothing was restarted.*does not reach NATS/,
    );
    await nodes.pass(20_000);
    await assert.rejects(b.cluster.upstreams.restart('own'), /^GatewayError: nothing was restarted.*fenced/);
    a.cut();
    await nodes.pass(20_000);
    for (const server of ['own', 'one']) {
      await assert.rejects(a.cluster.upstreams.restart(server), /nothing was restarted.*fenced/);
    }
    assert.deepEqual(restartedAt(a, b), []);
    for (const node of [a, b]) node.restore();
    await nodes.pass(10_000);
    await nodes.until(a.cluster.upstreams.restart('own'));
    assert.deepEqual(restartedAt(a, b), ['own at a', 'own at b']);
  }));

test('fault:F28 without NATS a shared server restarts here, and the operator learns at which nodes it did not', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [all]);
    const b = await nodes.join('b', [all]);
    const c = await nodes.join('c', [all]);
    a.cut();
    for (const passMs of [0, 20_000]) {
      await nodes.pass(passMs);
      await assert.rejects(a.cluster.upstreams.restart('all'), {
        code: 'NOT_SENT',
        message: 'all at node b, c: not restarted, because this node does not reach NATS; restarted at this node',
      });
    }
    assert.deepEqual(restartedAt(a, b, c), ['all at a', 'all at a']);
  }));

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ClusterBench,
  callOf,
  onNodes,
  type PlayedNode,
  serverNamed,
  TestExchange,
  wordOf,
} from '../../../test/support/cluster-bench.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import type { Bucket, SharedState } from '../../bus/shared-state.ts';
import type { Server } from '../../model/server.ts';
import type { ServerStatus } from '../../model/server-state.ts';

/** The node's files say this from now on. Ends when what they do not name any more has ended. */
function files(node: PlayedNode, ...servers: Server[]): Promise<void> {
  return node.cluster.apply(new Map(servers.map((server) => [server.name, server])));
}

/** The store of a node to which nothing gets through that changes a claim: it fails at once, or when that has settled. */
function hindered({ state }: ClusterBench): { readonly state: SharedState; writes: Promise<void> } {
  const its = {
    writes: Promise.resolve(),
    state: {
      bucket(name, options): Bucket {
        const bucket = state.bucket(name, options);
        const reached = name.endsWith('claims') ? () => its.writes : () => Promise.resolve();
        return {
          name,
          incarnation: bucket.incarnation,
          readIncarnation: () => bucket.readIncarnation(),
          get: (key) => bucket.get(key),
          look: (key) => bucket.look(key),
          create: (key, value) => reached().then(() => bucket.create(key, value)),
          restore: (key, value) => bucket.restore(key, value),
          update: (key, value, revision) => reached().then(() => bucket.update(key, value, revision)),
          delete: (key, revision) => reached().then(() => bucket.delete(key, revision)),
          forgetMarks: (olderThanMs) => bucket.forgetMarks(olderThanMs),
          keys: (pattern) => bucket.keys(pattern),
          watch: (pattern, watcher) => bucket.watch(pattern, watcher),
        };
      },
    } satisfies SharedState,
  };
  return its;
}

test('fault:F31 a singleton that its node’s file drops is begun elsewhere when its process has ended, not before', () =>
  onNodes(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const [a, b] = [await nodes.join('a', [one]), await nodes.join('b', [one])];
    await nodes.pass(1_500);
    a.local.keeps = true;
    const running = callOf(a, 'one', 's');
    await nodes.pass(100);
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    const dropped = files(a);
    // Longer than any lease, and than whoever looks for what became free waits.
    await nodes.pass(10_000, () => assert.equal(b.local.desired.has('one'), false, 'two at once'));
    for (const node of [a, b]) assert.equal(wordOf(await nodes.until(callOf(node, 'one', 's'))), 'NOT_SENT');
    // What it was about to answer still counts.
    a.local.calls[0]!.end({ kind: 'answer', message: new TestExchange('s').request });
    assert.equal((await nodes.until(running)).kind, 'answer');
    ended.resolve();
    await nodes.until(dropped);
    await nodes.pass(1_500);
    assert.equal(b.local.desired.has('one'), true);
    for (const node of [a, b]) assert.equal(wordOf(await nodes.until(callOf(node, 'one', 's'))), '{"node":"b"}');
  }));

test('a call between the claim of a singleton and its start is served', () =>
  onNodes(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const store = hindered(nodes);
    const late = Promise.withResolvers<void>();
    store.writes = late.promise;
    const a = await nodes.join('a', [one], { state: store.state });
    await nodes.pass(500);
    late.resolve();
    for (let i = 0; i < 1_000 && a.cluster.owned.length === 0; i++) await null;
    assert.deepEqual([a.cluster.owned.length, a.local.desired.has('one')], [1, false], 'that moment');
    assert.equal(wordOf(await nodes.until(callOf(a, 'one'))), '{"node":"a"}');
  }));

test('a singleton that returns to the file before its process has ended starts again there, after that', () =>
  onNodes(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const [a, b] = [await nodes.join('a', [one]), await nodes.join('b', [one])];
    await nodes.pass(1_500);
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    const dropped = files(a);
    await nodes.pass(200);
    await files(a, one);
    await nodes.pass(3_000, () =>
      assert.deepEqual([a.local.desired.has('one'), b.local.desired.has('one')], [false, false]),
    );
    ended.resolve();
    await nodes.until(dropped);
    await nodes.pass(1_500);
    assert.deepEqual([a.local.desired.has('one'), b.local.desired.has('one')], [true, false]);
    assert.equal(wordOf(await nodes.until(callOf(b, 'one', 's'))), '{"node":"a"}');
  }));

test('the sessions of a server that its node’s file drops move to another instance, when their processes have ended', () =>
  onNodes(async (nodes) => {
    const memory = serverNamed('memory', { isolation: 'session' });
    const [a, b] = [await nodes.join('a', [memory]), await nodes.join('b', [memory])];
    assert.equal(wordOf(await nodes.until(callOf(a, 'memory', 's'))), '{"node":"a"}');
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    const dropped = files(a);
    await nodes.pass(3_000);
    const early = callOf(b, 'memory', 's');
    await nodes.pass(1_000);
    assert.equal(b.local.calls.length, 0);
    ended.resolve();
    await nodes.until(dropped);
    assert.equal(wordOf(await nodes.until(early)), '{"node":"b"}');
    assert.equal(wordOf(await nodes.until(callOf(a, 'memory', 's'))), '{"node":"b"}');
    assert.deepEqual(
      b.events.heard.filter((text) => text.startsWith('stateLost')),
      ['stateLost memory s'],
    );
  }));

test('check:H4 a server that is dropped while the store does not answer moves once it does', () =>
  onNodes(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const memory = serverNamed('memory', { isolation: 'session' });
    const store = hindered(nodes);
    const a = await nodes.join('a', [one, memory], { state: store.state });
    const b = await nodes.join('b', [one, memory]);
    await nodes.pass(1_500);
    assert.equal(wordOf(await nodes.until(callOf(a, 'memory', 's'))), '{"node":"a"}');
    store.writes = Promise.reject(new Error('the store does not answer'));
    store.writes.catch(() => {});
    await nodes.until(files(a));
    await nodes.pass(3_000, () => assert.equal(b.local.desired.has('one'), false));
    store.writes = Promise.resolve();
    await nodes.pass(3_000);
    assert.equal(b.local.desired.has('one'), true);
    assert.equal(wordOf(await nodes.until(callOf(b, 'memory', 's'))), '{"node":"b"}');
  }));

test('check:H4 what is claimed while the files drop its server moves, and does not begin here', () =>
  onNodes(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const memory = serverNamed('memory', { isolation: 'session' });
    const store = hindered(nodes);
    const late = Promise.withResolvers<void>();
    store.writes = late.promise;
    const a = await nodes.join('a', [one, memory], { state: store.state });
    const b = await nodes.join('b', [memory]);
    const running = callOf(a, 'memory', 's');
    await nodes.pass(1_000);
    await nodes.until(files(a));
    await files(b, one, memory);
    late.resolve();
    assert.equal(wordOf(await nodes.until(running)), '{"node":"b"}');
    await nodes.pass(3_000);
    assert.deepEqual([a.local.desired.has('one'), b.local.desired.has('one')], [false, true]);
    assert.equal(wordOf(await nodes.until(callOf(a, 'one', 's'))), '{"node":"b"}');
  }));

test('check:H4 a server whose end fails at the node that drops it moves all the same', () =>
  onNodes(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const [a, b] = [await nodes.join('a', [one]), await nodes.join('b', [one])];
    await nodes.pass(1_500);
    a.local.ending = Promise.reject(new Error('it has no end'));
    await assert.rejects(files(a), /no end/);
    await nodes.pass(3_000);
    assert.equal(b.local.desired.has('one'), true);
  }));

test('fault:F31 what a frozen node owned when it dropped the server moves, although its lease is back', () =>
  onNodes(async (nodes) => {
    const memory = serverNamed('memory', { isolation: 'session' });
    const [a, b] = [await nodes.join('a', [memory]), await nodes.join('b', [memory])];
    assert.equal(wordOf(await nodes.until(callOf(a, 'memory', 's'))), '{"node":"a"}');
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    const dropped = files(a);
    a.cut();
    nodes.clock.skip(3_000);
    await nodes.pass(500);
    a.restore();
    await nodes.pass(2_000);
    assert.equal(a.cluster.state, 'ready');
    assert.deepEqual(a.local.surrendered, ['memory s']);
    ended.resolve();
    await nodes.until(dropped);
    assert.equal(wordOf(await nodes.until(callOf(b, 'memory', 's'))), '{"node":"b"}');
  }));

test('fault:F31 what a frozen node owned is free when nothing of it is left, and moves where it can start', () =>
  onNodes(async (nodes) => {
    const memory = serverNamed('memory', { isolation: 'session' });
    const [a, b] = [await nodes.join('a', [memory]), await nodes.join('b', [memory])];
    const warm = await a.cluster.ownership.own(memory, clientOf(null), 'spare');
    assert.equal(wordOf(await nodes.until(callOf(a, 'memory', 's'))), '{"node":"a"}');
    const ended = Promise.withResolvers<void>();
    a.local.ending = ended.promise;
    a.cut();
    nodes.clock.skip(3_000);
    await nodes.pass(500);
    a.restore();
    await nodes.pass(2_000);
    assert.deepEqual([a.cluster.state, a.cluster.figures.owned], ['ready', 0]);
    const up = { name: 'memory', state: 'running' } as ServerStatus;
    b.local.states.set('memory', up);
    b.cluster.events.statusChanged('memory', up);
    a.local.failed.add('memory');
    await nodes.pass(1_000);
    const called = callOf(b, 'memory', 's');
    await nodes.pass(2_000);
    assert.equal(b.local.calls.length, 0, 'not beside what is left of it');
    ended.resolve();
    warm.release();
    assert.equal(wordOf(await nodes.until(called)), '{"node":"b"}');
    await nodes.pass(2_000);
    const records = nodes.state.bucket('trunkline_claims', { ttlMs: 0 });
    assert.equal((await records.keys('own.*')).length, 1, 'that of the session, and none of what was nobody’s');
  }));

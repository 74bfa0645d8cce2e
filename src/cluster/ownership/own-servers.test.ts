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
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { clientOf, RecordedEvents } from '../../../test/support/played-upstreams.ts';
import type { Bucket, SharedState } from '../../bus/shared-state.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Server } from '../../model/server.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { OwnNode } from '../lease/own-node.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { Place } from '../nodes/routing-table.ts';
import type { Owner } from './claims.ts';
import { OwnServers } from './own-servers.ts';
import type { OwnedCalls } from './owned-calls.ts';
import { SINGLETON } from './placement.ts';

/** Replaces the servers in the node's files. Resolves when the processes of removed servers have ended. */
function files(node: PlayedNode, ...servers: Server[]): Promise<void> {
  return node.cluster.apply(new Map(servers.map((server) => [server.name, server])));
}

/** The store of a node; its changes of claims wait for `writes`, and fail if that rejects. */
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
          purgeTombstones: (olderThanMs) => bucket.purgeTombstones(olderThanMs),
          keys: (pattern) => bucket.keys(pattern),
          watch: (pattern, watcher) => bucket.watch(pattern, watcher),
        };
      },
    } satisfies SharedState,
  };
  return its;
}

test('fault:F31 a singleton that its node’s file drops starts at another node only after its process has ended', () =>
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
    // Longer than any lease, and than the interval at which nodes look for free singletons.
    await nodes.pass(10_000, () => assert.equal(b.local.desired.has('one'), false, 'two at once'));
    for (const node of [a, b]) assert.equal(wordOf(await nodes.until(callOf(node, 'one', 's'))), 'NOT_SENT');
    // The answer to the call in flight still counts.
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
    assert.deepEqual([a.cluster.owned.length, a.local.desired.has('one')], [1, false], 'between claim and start');
    assert.equal(wordOf(await nodes.until(callOf(a, 'one'))), '{"node":"a"}');
  }));

test('a singleton that returns to the file before its process has ended starts again there once it has ended', () =>
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

test('check:H4 a server that is claimed while the files drop it moves to another node, and does not start here', () =>
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

test('check:H4 a server moves even if ending it fails at the node that drops it', () =>
  onNodes(async (nodes) => {
    const one = serverNamed('one', { singleton: true });
    const [a, b] = [await nodes.join('a', [one]), await nodes.join('b', [one])];
    await nodes.pass(1_500);
    a.local.ending = Promise.reject(new Error('it has no end'));
    await assert.rejects(files(a), /no end/);
    await nodes.pass(3_000);
    assert.equal(b.local.desired.has('one'), true);
  }));

test('fault:F31 a session of a frozen node that dropped the server moves, although the node has a lease again', () =>
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

test('fault:F31 a session of a frozen node is free once its process has ended, and moves where it can start', () =>
  onNodes(async (nodes) => {
    const memory = serverNamed('memory', { isolation: 'session' });
    const [a, b] = [await nodes.join('a', [memory]), await nodes.join('b', [memory])];
    const warm = await a.cluster.ownership.acquire(memory, clientOf(null), 'spare');
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
    assert.equal(b.local.calls.length, 0, 'not before its process has ended');
    ended.resolve();
    warm.release();
    assert.equal(wordOf(await nodes.until(called)), '{"node":"b"}');
    await nodes.pass(2_000);
    const records = nodes.state.bucket('trunkline_claims', { ttlMs: 0 });
    assert.equal((await records.keys('own.*')).length, 1, 'the claim of the session, and none of the spare process');
  }));

const ENDS: readonly (readonly [string, (node: PlayedNode) => unknown])[] = [
  ['is gone', (node) => node.cut()],
  ['drops it', (node) => files(node)],
  [
    'drains',
    ({ cluster }) => {
      cluster.drain();
      cluster.handOver();
    },
  ],
];
for (const [what, end] of ENDS) {
  test(`a node reads the claim of a singleton of another node at each tenth look, and starts it once that node ${what}`, () =>
    onNodes(async (nodes) => {
      const one = serverNamed('one', { singleton: true });
      const [a, b] = [await nodes.join('a', [one]), await nodes.join('b', [one])];
      const up = { name: 'one', state: 'running' } as ServerStatus;
      a.local.states.set('one', up);
      a.cluster.events.statusChanged('one', up);
      await nodes.pass(1_500);
      const claims = nodes.state.bucket('trunkline_claims', { ttlMs: 0 });
      const get = claims.get.bind(claims);
      let reads = 0;
      claims.get = (key) => {
        reads++;
        return get(key);
      };
      await nodes.pass(20_000);
      assert.equal(reads, 2);
      await end(a);
      // Before the next tenth look.
      await nodes.pass(6_000);
      assert.equal(b.local.desired.has('one'), true);
    }));
}

const theirs: Owner = { kind: 'theirs', node: 'b', peer: 'peer of b', epoch: '1.1' };
const place = {
  server: { name: 'memory' },
  otherInstances: [{ node: { id: 'b', peer: 'peer of b' } }],
} as unknown as Place;

function ownServers(clock: FakeClock, claims: object): OwnServers {
  const owned = { claims } as unknown as OwnedCalls;
  const known = {} as KnownServers;
  return new OwnServers({ clock } as unknown as ClusterDeps, {} as OwnNode, known, owned, new RecordedEvents());
}

/** The test itself answers each question to the store. */
function playedOwners() {
  const clock = new FakeClock();
  const questions: PromiseWithResolvers<Owner | null>[] = [];
  const claims = {
    mine: () => null,
    owner: () => {
      const question = Promise.withResolvers<Owner | null>();
      questions.push(question);
      return question.promise;
    },
  };
  const owners = ownServers(clock, claims);
  const found: (string | null)[] = [];
  const find = async (): Promise<void> => {
    const instance = await owners.instanceOfOwner(place, 'key');
    found.push(instance === null ? null : instance.node.id);
  };
  return { clock, questions, found, find };
}

test('only a session whose process runs here under its claim is in use', () => {
  const claim = { server: 'memory', key: 's', serving: 1 };
  let held = true;
  let barred = false;
  const claims = { mine: (server: string, key: string) => (held && server === 'memory' && key === 's' ? claim : null) };
  const owners = ownServers(new FakeClock(), claims);
  Object.assign(owners, { handover: { isBarred: () => barred } });
  const engaged = (sessionId: string | null, server: object = {}, process = true): unknown =>
    owners.claimInUse(
      { server: { name: 'memory', isolation: null, singleton: false, ...server }, process } as unknown as Place,
      { sessionId } as ClientProfile,
    );
  assert.equal(engaged('s'), claim);
  assert.equal(engaged('s', { isolation: 'session' }), claim);
  assert.equal(engaged(null), null);
  assert.equal(engaged('t'), null);
  assert.equal(engaged('s', { isolation: 'shared' }), null, 'the isolation was another one before');
  assert.equal(engaged('s', { isolation: 'principal' }), null);
  assert.equal(engaged('s', { singleton: true }), null);
  assert.equal(engaged('s', {}, false), null);
  claim.serving = 0;
  assert.equal(engaged('s'), null, 'without a process its calls may need no claim');
  claim.serving = 1;
  barred = true;
  assert.equal(engaged('s'), null);
  barred = false;
  held = false;
  assert.equal(engaged('s'), null);
});

test('a node that does not start what it claimed gives the reason: a process that is ending, or its files', async () => {
  const claim = { server: 'one', key: SINGLETON };
  let [held, barred] = [true, true];
  const release = async (): Promise<void> => {
    held = false;
  };
  const claims = { mine: () => (held ? claim : null), claim: async () => ({ kind: 'mine', claim }), release };
  const owners = ownServers(new FakeClock(), claims);
  Object.assign(owners, { handover: { isBarred: () => barred } });
  const claimed = () => owners.claim({ server: { name: 'one' } } as Place, SINGLETON, clientOf('s'));
  await assert.rejects(claimed(), { code: 'NOT_SENT', message: /one: its process at this node has not ended yet/ });
  barred = false;
  await assert.rejects(claimed(), { code: 'NOT_SENT', message: /one: the files of this node/ });
});

test('check:C9 one list waits a second for a silent store; no other list waits until it has answered', async () => {
  const { clock, questions, found, find } = playedOwners();
  void find();
  await clock.advance(999);
  assert.deepEqual(found, []);
  await clock.advance(1);
  assert.deepEqual(found, [null]);
  for (let i = 0; i < 3; i++) await find();
  assert.deepEqual([found.length, questions.length], [4, 1]);
  await clock.advance(1_000);
  for (let i = 0; i < 3; i++) await find();
  assert.deepEqual([found.length, questions.length], [7, 1], 'one question at a time');
  questions[0]!.reject(new GatewayError('NOT_SENT', 'the store of the cluster does not answer'));
  await settled();
  await clock.advance(1_000);
  for (let i = 0; i < 3; i++) await find();
  assert.deepEqual([found.length, questions.length], [10, 2], 'the store is asked again, and no list waits');
  questions[1]!.resolve(theirs);
  await settled();
  void find();
  await settled();
  assert.deepEqual([found.length, questions.length], [10, 3], 'lists wait for it again');
  questions[2]!.resolve(theirs);
  await settled();
  assert.equal(found.at(-1), 'b');
});

test('a store that answers soon is asked every time', async () => {
  const { questions, found, find } = playedOwners();
  for (const [i, owner] of [theirs, null, theirs].entries()) {
    void find();
    questions[i]!.resolve(owner);
    await settled();
  }
  assert.deepEqual(found, ['b', null, 'b']);
});

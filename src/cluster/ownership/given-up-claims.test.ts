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
import { GatewayError } from '../../model/gateway-error.ts';
import { failure } from '../../model/outcome.ts';
import type { ServerStatus } from '../../model/server-state.ts';

const MEMORY = serverNamed('memory', { isolation: 'session' });

async function servedBy(nodes: ClusterBench, node: PlayedNode, session: string): Promise<string> {
  return wordOf(await nodes.until(callOf(node, 'memory', session)));
}

/** Sets the state of the server at this node, which the node publishes from now on. */
function says(node: PlayedNode, state: 'running' | 'failed'): void {
  const status = { name: 'memory', state, consecutiveFailures: state === 'failed' ? 3 : 0, lastLaunchFailure: null };
  node.local.states.set('memory', status as unknown as ServerStatus);
  node.cluster.events.statusChanged('memory', status as unknown as ServerStatus);
}

/** From the next call on, the node fails to start the processes of the server. */
function breaks({ local }: PlayedNode, outcome: 'NOT_SENT' | 'UNKNOWN' = 'NOT_SENT'): void {
  local.handle = ({ end }) => {
    local.failed.add('memory');
    end(failure(new GatewayError(outcome, 'memory could not be started')));
  };
}

function mended({ local }: PlayedNode): void {
  local.handle = null;
  local.failed.clear();
}

function answer(nodes: ClusterBench): string[] {
  return nodes.nodes.flatMap(({ events }) => events.heard.filter((text) => text.startsWith('stateLost')));
}

async function instances(nodes: ClusterBench): Promise<readonly [PlayedNode, PlayedNode]> {
  const both = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])] as const;
  says(both[1], 'running');
  await nodes.pass(1_000);
  return both;
}

test('a new session whose process does not start here is served where the server runs, and stays there', () =>
  onNodes(async (nodes) => {
    const [a, b] = await instances(nodes);
    breaks(a);
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"b"}');
    assert.equal(a.local.calls.length, 1, 'the first call tried to start it');
    for (const node of [a, b]) assert.equal(await servedBy(nodes, node, 'one'), '{"node":"b"}');
    assert.equal(await servedBy(nodes, a, 'two'), '{"node":"b"}');
    assert.equal(a.local.calls.length, 1, 'a new session goes to b without a try at a');
    mended(a);
    assert.equal(await servedBy(nodes, a, 'three'), '{"node":"a"}', 'a serves new sessions again');
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"b"}');
    assert.deepEqual(answer(nodes), [], 'nothing was lost');
  }));

test('a session with state whose process cannot be started again moves to another instance, and is notified', () =>
  onNodes(async (nodes) => {
    const [a] = await instances(nodes);
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"a"}');
    breaks(a);
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"b"}');
    assert.deepEqual(answer(nodes), ['stateLost memory one']);
  }));

test('a session stays at its node while its process runs there, and after a call that may have run', () =>
  onNodes(async (nodes) => {
    const [a, b] = await instances(nodes);
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"a"}');
    const owned = await a.cluster.ownership.acquire(MEMORY, clientOf('one'), 'session');
    breaks(a);
    for (const node of [a, b]) assert.equal(await servedBy(nodes, node, 'one'), 'NOT_SENT');
    owned.release();
    breaks(a, 'UNKNOWN');
    for (const node of [a, b]) assert.equal(await servedBy(nodes, node, 'one'), 'UNKNOWN');
    assert.equal(b.local.calls.length, 0);
    breaks(a);
    assert.equal(await servedBy(nodes, b, 'one'), '{"node":"b"}');
  }));

test('calls of a new session that wait for its process together move with it, unless they may have run', () =>
  onNodes(async (nodes) => {
    const [a] = await instances(nodes);
    a.local.keeps = true;
    const outcomes = [callOf(a, 'memory', 'one'), callOf(a, 'memory', 'one'), callOf(a, 'memory', 'one')];
    await nodes.pass(100);
    const [first, second, third] = a.local.calls;
    a.local.failed.add('memory');
    first!.end(failure(new GatewayError('NOT_SENT', 'memory could not be started')));
    assert.equal(wordOf(await nodes.until(outcomes[0]!)), '{"node":"b"}');
    // Node a could start it by now, but another node owns the session.
    a.local.failed.clear();
    second!.end(failure(new GatewayError('NOT_SENT', 'memory is owned by node b')));
    assert.equal(wordOf(await nodes.until(outcomes[1]!)), '{"node":"b"}');
    third!.end(failure(new GatewayError('UNKNOWN', 'memory ended')));
    assert.equal(wordOf(await nodes.until(outcomes[2]!)), 'UNKNOWN');
  }));

test('a call made while the session’s process starts moves to the other instance when the start fails', () =>
  onNodes(async (nodes) => {
    const [a] = await instances(nodes);
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"a"}');
    const starting = await a.cluster.ownership.acquire(MEMORY, clientOf('one'), 'session');
    a.local.keeps = true;
    const beside = callOf(a, 'memory', 'one');
    await nodes.pass(100);
    starting.release();
    a.local.failed.add('memory');
    a.local.calls.at(-1)!.end(failure(new GatewayError('NOT_SENT', 'memory could not be started')));
    assert.equal(wordOf(await nodes.until(beside)), '{"node":"b"}');
  }));

test('a session whose own process cannot be started moves to another instance, and the others stay', () =>
  onNodes(async (nodes) => {
    const [a, b] = await instances(nodes);
    assert.equal(await servedBy(nodes, a, 'old'), '{"node":"a"}');
    a.local.handle = ({ end, request, exchange }) => {
      const { sessionId } = exchange.client;
      if (sessionId === 'old') return end({ kind: 'answer', message: request });
      a.local.failed.add(`memory ${sessionId}`);
      end(failure(new GatewayError('NOT_SENT', 'memory could not be started')));
    };
    for (const node of [a, b]) assert.equal(await servedBy(nodes, node, 'one'), '{"node":"b"}');
    assert.equal(a.local.calls.length, 2, 'one try');
    await servedBy(nodes, b, 'old');
    assert.deepEqual([a.local.calls.length, b.local.calls.length], [3, 2]);
    assert.deepEqual(answer(nodes), []);
  }));

test('a session whose process starts nowhere gets the reason from the second node, at once', () =>
  onNodes(async (nodes) => {
    const both = await instances(nodes);
    says(both[0], 'running');
    await nodes.pass(1_000);
    for (const { id, local } of both) {
      local.handle = ({ end }) => {
        local.failed.add('memory one');
        end(failure(new GatewayError('NOT_SENT', `memory exited with code 3 at ${id}`)));
      };
    }
    let tries = 0;
    for (const [at, other] of [both, [both[1], both[0]]] as const) {
      const before = nodes.clock.now();
      const outcome = await nodes.until(callOf(at, 'memory', 'one'));
      assert.ok(outcome.kind === 'failure');
      assert.match(outcome.error.message, /exited with code 3 at/);
      assert.ok(nodes.clock.now() - before <= 500, `${nodes.clock.now() - before} ms`);
      const tried = at.local.calls.length + other.local.calls.length;
      assert.ok(tried - tries <= 2, `${tried - tries} tries`);
      tries = tried;
    }
  }));

test('a node looks up the next instance for a call when the start fails, not when the call begins', () =>
  onNodes(async (nodes) => {
    const [a, b] = await instances(nodes);
    says(b, 'failed');
    await nodes.pass(1_000);
    a.local.keeps = true;
    const first = callOf(a, 'memory', 'one');
    await nodes.pass(100);
    says(b, 'running');
    await nodes.pass(1_000);
    a.local.failed.add('memory');
    a.local.calls[0]!.end(failure(new GatewayError('NOT_SENT', 'memory could not be started')));
    assert.equal(wordOf(await nodes.until(first)), '{"node":"b"}');
    a.local.failed.clear();
    const second = callOf(a, 'memory', 'two');
    await nodes.pass(100);
    says(b, 'failed');
    await nodes.pass(1_000);
    a.local.failed.add('memory');
    const owned = a.cluster.figures.owned;
    a.local.calls[1]!.end(failure(new GatewayError('NOT_SENT', 'memory could not be started')));
    assert.equal(wordOf(await nodes.until(second)), 'NOT_SENT');
    assert.equal(a.cluster.figures.owned, owned, 'the claim is kept, as no other node runs the server');
  }));

test('check:H5 a call that instances try without success is still served by the next one, under one deadline', () =>
  onNodes(async (nodes) => {
    const TRIED_MS = 7_000;
    for (const caller of ['a', 'c'] as const) {
      const [a, b] = [await nodes.join(`a${caller}`, [MEMORY]), await nodes.join(`b${caller}`, [MEMORY])];
      says(b, 'running');
      const at = caller === 'a' ? a : await nodes.join('c', []);
      await nodes.pass(1_000);
      if (caller === 'c') assert.equal(await servedBy(nodes, a, caller), `{"node":"${a.id}"}`);
      const begun = a.local.calls.length;
      a.local.keeps = true;
      const called = callOf(at, 'memory', caller);
      const calledAt = nodes.clock.now();
      await nodes.pass(TRIED_MS);
      a.local.failed.add('memory');
      a.local.calls[begun]!.end(failure(new GatewayError('NOT_SENT', 'memory could not be started')));
      assert.equal(wordOf(await nodes.until(called)), `{"node":"${b.id}"}`);
      const { searchStartedAt: startedAt } = b.local.calls[0]!.exchange;
      assert.ok(
        Math.abs(startedAt! - calledAt) < 200,
        `its time counts from ${startedAt! - calledAt} ms after it began`,
      );
      for (const node of [a, b]) node.cluster.drain();
      await nodes.pass(500);
    }
  }));

test('a claim made for a session that has ended is released', () =>
  onNodes(async (nodes) => {
    const [a] = await instances(nodes);
    const bucket = nodes.state.bucket('trunkline_claims', { ttlMs: 0 });
    const create = bucket.create.bind(bucket);
    const late = Promise.withResolvers<void>();
    bucket.create = (key, value) => late.promise.then(() => create(key, value));
    const exchange = new TestExchange('one');
    const called = a.cluster.upstreams.call('memory', exchange.request, exchange);
    await nodes.pass(200);
    exchange.cancel('the session has ended');
    a.cluster.upstreams.releaseSession('one');
    late.resolve();
    assert.equal((await nodes.until(called)).kind, 'failure');
    await nodes.pass(500);
    assert.equal(a.cluster.figures.owned, 0);
    assert.deepEqual(await bucket.keys('own.*'), []);
  }));

test('the state of a session counts as lost when a call may have run in its first process', () =>
  onNodes(async (nodes) => {
    const [a] = await instances(nodes);
    breaks(a, 'UNKNOWN');
    assert.equal(await servedBy(nodes, a, 'one'), 'UNKNOWN');
    breaks(a);
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"b"}');
    assert.deepEqual(answer(nodes), ['stateLost memory one']);
  }));

test('a call that times out or is refused as overloaded releases no claim', () =>
  onNodes(async (nodes) => {
    const [a, b] = await instances(nodes);
    for (const code of ['TIMEOUT', 'OVERLOADED'] as const) {
      a.local.handle = ({ end }) => {
        a.local.failed.add('memory');
        end(failure(new GatewayError(code, 'not here', { outcome: 'NOT_SENT' })));
      };
      a.local.failed.clear();
      assert.equal(await servedBy(nodes, a, code), 'NOT_SENT');
    }
    assert.equal(b.local.calls.length, 0);
  }));

test('fault:F30 the session of a dead node is taken over where the server runs, also through a node that cannot start it', () =>
  onNodes(async (nodes) => {
    const [a] = await instances(nodes);
    const d = await nodes.join('d', [MEMORY]);
    assert.equal(await servedBy(nodes, d, 'one'), '{"node":"d"}');
    a.local.failed.add('memory');
    d.cut();
    await nodes.pass(5_000);
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"b"}');
    assert.deepEqual(answer(nodes), ['stateLost memory one']);
    d.restore();
  }));

test('a node keeps a session whose server runs at no other node', () =>
  onNodes(async (nodes) => {
    const [a, b] = await instances(nodes);
    says(b, 'failed');
    await nodes.pass(1_000);
    breaks(a);
    for (let i = 0; i < 3; i++) assert.equal(await servedBy(nodes, a, 'one'), 'NOT_SENT');
    assert.equal(a.local.calls.length, 3, 'each call tries');
    assert.equal(b.local.calls.length, 0);
  }));

test('a node without the server calls the instance where it runs, and is redirected by one that cannot start it', () =>
  onNodes(async (nodes) => {
    const [a] = await instances(nodes);
    const c = await nodes.join('c', []);
    breaks(a);
    const sessions = Array.from({ length: 12 }, (_, i) => `s${i}`);
    for (const session of sessions) assert.equal(await servedBy(nodes, c, session), '{"node":"b"}');
    assert.ok(a.local.calls.length > 0, 'a was asked before its failure was known');
    const asked = a.local.calls.length;
    says(a, 'failed');
    await nodes.pass(1_000);
    for (const session of sessions) assert.equal(await servedBy(nodes, c, `${session} later`), '{"node":"b"}');
    assert.equal(a.local.calls.length, asked);
    assert.deepEqual(answer(nodes), []);
  }));

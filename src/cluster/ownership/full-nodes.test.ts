import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ClusterBench,
  callOf,
  onNodes,
  type PlayedNode,
  serverNamed,
  wordOf,
} from '../../../test/support/cluster-bench.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import { ProcessLimitReached } from '../../model/gateway-error.ts';
import { answer, failure } from '../../model/outcome.ts';
import { systemRandom } from '../../model/random.ts';
import { result } from '../../protocol/compose.ts';

const MEMORY = serverNamed('memory', { isolation: 'session' });

async function servedBy(nodes: ClusterBench, node: PlayedNode, session: string): Promise<string> {
  return wordOf(await nodes.until(callOf(node, 'memory', session)));
}

/** From now on the node is at its process limit. `said`: it knows this before it tries to start one more process. */
function fills({ local }: PlayedNode, said = true): void {
  if (said) local.crowded.add('memory');
  local.handle = ({ end }) => {
    local.crowded.add('memory');
    end(failure(new ProcessLimitReached('memory', 'memory runs 16 processes, its limit')));
  };
}

function hasRoomAgain({ local }: PlayedNode): void {
  local.crowded.clear();
  local.handle = null;
}

test('S0.18 check:H4 a new session at a node without room for its process is served by a node that has room, without a try at the first node', () =>
  onNodes(async (nodes) => {
    const [a, b, c] = [
      await nodes.join('a', [MEMORY]),
      await nodes.join('b', [MEMORY]),
      await nodes.join('c', [MEMORY]),
    ];
    assert.equal(await servedBy(nodes, a, 'old'), '{"node":"a"}');
    await a.cluster.ownership.acquire(MEMORY, clientOf('old'), 'session');
    a.local.crowded.add('memory');
    fills(b);
    await nodes.pass(1_000);
    for (const session of ['one', 'two', 'three', 'four']) {
      assert.equal(await servedBy(nodes, a, session), '{"node":"c"}');
    }
    assert.deepEqual([a.local.calls.length, b.local.calls.length, c.local.calls.length], [1, 0, 4]);
    assert.equal(await servedBy(nodes, b, 'old'), '{"node":"a"}', 'a session with a process stays');
    a.local.crowded.clear();
    assert.equal(
      await servedBy(nodes, a, 'five'),
      '{"node":"a"}',
      'and a new session is served here as soon as there is room',
    );
  }));

test('the first call at a node without room goes to a node with room; none is refused, and no state is reported lost', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])];
    fills(a, false);
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"b"}');
    hasRoomAgain(a);
    for (const node of [a, b]) assert.equal(await servedBy(nodes, node, 'one'), '{"node":"b"}');
    for (const { events } of [a, b]) assert.deepEqual(events.heard, []);
  }));

test('if no node has room, the call is refused, and the session is bound to no node', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])];
    for (const node of [a, b]) fills(node);
    await nodes.pass(1_000);
    for (const node of [a, b]) assert.equal(await servedBy(nodes, node, 'one'), 'REFUSED');
    hasRoomAgain(b);
    await nodes.pass(1_000);
    assert.equal(await servedBy(nodes, a, 'one'), '{"node":"b"}');
  }));

test('concurrent refused calls of a session report no loss; the first node with room gets the session', () =>
  onNodes(async (nodes) => {
    const [a, b, c] = [
      await nodes.join('a', [MEMORY]),
      await nodes.join('b', [MEMORY]),
      await nodes.join('c', [MEMORY]),
    ];
    for (const node of [a, b, c]) fills(node);
    await nodes.pass(1_000);
    for (let round = 0; round < 3; round++) {
      const calls = [a, b, a, c, b].map((node) => callOf(node, 'memory', 'one'));
      const words = (await nodes.until(Promise.all(calls))).map(wordOf);
      assert.deepEqual(new Set(words), new Set(['REFUSED']));
    }
    hasRoomAgain(c);
    await nodes.pass(1_000);
    for (const node of [b, a, c]) assert.equal(await servedBy(nodes, node, 'one'), '{"node":"c"}');
    for (const { events } of [a, b, c]) assert.deepEqual(events.heard, []);
  }));

test('a session refused at a node that did not announce that it is full is served by one with room', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [MEMORY]), await nodes.join('b', [MEMORY])];
    fills(a);
    await nodes.pass(1_000);
    fills(b, false);
    assert.equal(await servedBy(nodes, a, 'one'), 'REFUSED');
    assert.deepEqual([a.local.calls.length, b.local.calls.length], [0, 1]);
    hasRoomAgain(a);
    await nodes.pass(500);
    assert.equal(await servedBy(nodes, b, 'one'), '{"node":"a"}');
  }));

test('check:H4 a new session is served by the instance that has fewer calls', () =>
  onNodes(async (nodes) => {
    let drawn = 0;
    const random = { ...systemRandom, unit: () => (drawn++ % 2 === 0 ? 0 : 0.9) };
    const [b, c] = [await nodes.join('b', [MEMORY]), await nodes.join('c', [MEMORY])];
    const a = await nodes.join('a', [], { random });
    for (const { local } of [b, c]) local.keeps = true;
    // One instance is busy with a client of its own node.
    for (const [busy, other] of [
      [b, c],
      [c, b],
    ] as const) {
      const own = callOf(busy, 'memory', `own ${busy.id}`);
      await nodes.pass(1_000);
      const [before, called] = [other.local.calls.length, callOf(a, 'memory', `beside ${busy.id}`)];
      await nodes.pass(100);
      assert.equal(other.local.calls.length, before + 1);
      for (const { local } of [busy, other]) {
        local.calls.at(-1)!.end(answer(result('1', `{"node":"${local.node}"}`, 'stateful')));
      }
      await nodes.until(Promise.all([own, called]));
      await nodes.pass(1_000);
    }
  }));

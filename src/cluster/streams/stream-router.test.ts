import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ClusterBench, NO_CLIENTS, onNodes, type PlayedNode } from '../../../test/support/cluster-bench.ts';
import { errorOf, notification, request, result } from '../../protocol/compose.ts';
import { Logger } from '../../telemetry/logger.ts';
import { unpackFrame } from '../frames/frame.ts';

test('check:C9 an answer goes to the node that its id names, a cancellation to all others', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const join = (name: string) => {
      const fromElsewhere = (sessionId: string, { bytes }: { readonly bytes: Buffer }): void =>
        void heard.push(`${name} ${sessionId} ${bytes}`);
      return nodes.join(name, [], { downstream: { ...NO_CLIENTS, fromElsewhere } });
    };
    const [a, b] = [await join('a'), await join('b'), await join('c')];
    const { streams } = a.cluster;
    const said = async (): Promise<string[]> => {
      await nodes.pass(100);
      return heard.splice(0).sort();
    };
    const answer = result(`"${b.bus.peer}-3"`, '{"roots":[]}', 'stateful');
    streams.forward('s', answer);
    assert.deepEqual(await said(), [`b s ${answer.bytes}`]);
    const refusal = errorOf(`"${b.bus.peer}-4"`, Buffer.from('{"code":-32601,"message":"no"}'), 'stateful');
    streams.forward('s', refusal);
    assert.deepEqual(await said(), [`b s ${refusal.bytes}`]);
    // Ids of this node, of no node, and ids that no node issues.
    for (const id of [`"${a.bus.peer}-1"`, '"ffffffffffffffff-1"', '"*-1"', `"${b.bus.peer}.x-1"`, '7', 'null']) {
      streams.forward('s', result(id, '{}', 'stateful'));
      assert.deepEqual(await said(), [], id);
    }
    const cancellation = notification('notifications/cancelled', '{"requestId":7}', 'stateful');
    streams.forward('s', cancellation);
    assert.deepEqual(await said(), [`b s ${cancellation.bytes}`, `c s ${cancellation.bytes}`]);
  }));

test('a stream that opens again at its node is announced to a node that has joined since', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const join = (name: string) => {
      const deliver = (sessionId: string): void => void heard.push(`${name} ${sessionId}`);
      return nodes.join(name, [], { downstream: { ...NO_CLIENTS, deliver } });
    };
    const [a, b] = [await join('a'), await join('b')];
    const note = notification('notifications/message', '{}', 'stateful');
    const delivered = async (...from: (typeof a)[]): Promise<string[]> => {
      await nodes.pass(100);
      for (const { cluster } of from) cluster.streams.deliver('s', note);
      await nodes.pass(100);
      return heard.splice(0);
    };
    assert.equal(a.cluster.streams.opened('s'), false);
    assert.deepEqual(await delivered(a, b), ['a s', 'a s']);
    assert.equal(b.cluster.streams.opened('s'), true);
    assert.equal(b.cluster.streams.opened('s'), false);
    assert.deepEqual(await delivered(a, b), ['b s', 'b s']);
    assert.equal(a.cluster.streams.opened('s'), true);
    assert.deepEqual(await delivered(a, b), ['a s', 'a s']);
    const c = await join('c');
    assert.equal(a.cluster.streams.opened('s'), false);
    assert.deepEqual(await delivered(a, b, c), ['a s', 'a s', 'a s']);
  }));

const NOTE = notification('notifications/message', '{}', 'stateful');
const QUESTION = request('roots/list', '7', '{}', 'stateful');
/** More streams than a node remembers. */
const MANY = 140_000;

/** A node whose clients are those of `open`; what they get is in `heard`. */
async function withClients(
  nodes: ClusterBench,
  name: string,
  heard: string[],
  open = new Set<string>(),
  logger = Logger.silent(),
) {
  const node = await nodes.join(name, [], {
    logger,
    downstream: {
      ...NO_CLIENTS,
      listening: (sessionId) => open.has(sessionId),
      listeners: () => open,
      deliver: (sessionId) => void heard.push(`${name} ${sessionId}`),
      ask: async (sessionId, { id }) => result(id, JSON.stringify({ at: `${name} ${sessionId}` }), 'stateful'),
    },
  });
  const opens = (sessionId: string): boolean => {
    open.add(sessionId);
    return node.cluster.streams.opened(sessionId);
  };
  return { ...node, opens };
}

/** Two nodes; the stream of session `s` is open at `b`. */
async function openAtB(nodes: ClusterBench) {
  const heard: string[] = [];
  const [a, b] = [await withClients(nodes, 'a', heard), await withClients(nodes, 'b', heard)];
  b.opens('s');
  await nodes.pass(100);
  return { a, b, heard, asked: tapped(b, 'all', 'sought') };
}

/** Opens so many streams of other sessions at `at` that `node` forgets all others. */
function flood(node: PlayedNode, at: PlayedNode, prefix = 'x'): void {
  for (let i = 0; i < MANY; i++) node.cluster.streams.openedAt(`${prefix}${i}`, at.bus.peer);
}

/** The sessions named in each message of this kind that is sent to `to`. */
function tapped({ bus }: PlayedNode, to: string, kind: string): (readonly string[])[] {
  const seen: (readonly string[])[] = [];
  bus.subscribe(`trunkline.side.${to}`, (payload) => {
    const { header } = unpackFrame<{ readonly kind: string; readonly sessionIds: readonly string[] }>(payload);
    if (header.kind === kind) seen.push(header.sessionIds);
  });
  return seen;
}

test('a stream that opened before many others still gets messages of another node in order; that node asks once', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const [a, b, c] = [
      await withClients(nodes, 'a', heard),
      await withClients(nodes, 'b', heard),
      await withClients(nodes, 'c', heard),
    ];
    b.opens('s');
    b.opens('t');
    await nodes.pass(100);
    flood(a, c);
    const asked = tapped(c, 'all', 'sought');
    const { streams } = a.cluster;
    streams.deliver('s', NOTE);
    streams.deliver('s', NOTE);
    const reply = streams.ask('t', QUESTION);
    assert.equal((await nodes.until(reply)).body.toString(), '{"at":"b t"}');
    await nodes.pass(100);
    assert.deepEqual(heard.splice(0), ['b s', 'b s']);
    streams.deliver('s', NOTE);
    await nodes.pass(100);
    assert.deepEqual(heard.splice(0), ['b s']);
    assert.deepEqual(asked, [['s'], ['t']]);
  }));

test('messages for a recently used stream do not wait, however many others open', () =>
  onNodes(async (nodes) => {
    const { a, b, heard, asked } = await openAtB(nodes);
    for (let i = 0; i < MANY; i++) {
      a.cluster.streams.openedAt(`x${i}`, b.bus.peer);
      if (i % 10_000 === 0) a.cluster.streams.deliver('s', NOTE);
    }
    a.cluster.streams.deliver('s', NOTE);
    await nodes.pass(2_000);
    assert.deepEqual([heard, asked], [Array(15).fill('b s'), []]);
  }));

test('ended sessions push out no others, and a node that forgot no stream asks no other node', () =>
  onNodes(async (nodes) => {
    const { a, b, heard, asked } = await openAtB(nodes);
    for (let i = 0; i < MANY; i++) {
      a.cluster.streams.openedAt(`x${i}`, b.bus.peer);
      a.cluster.clients.sessionEnded(`x${i}`);
    }
    a.cluster.streams.deliver('s', NOTE);
    a.cluster.streams.deliver('none', NOTE);
    assert.deepEqual(heard.splice(0), ['a none']);
    await nodes.pass(100);
    assert.deepEqual([heard, asked], [['b s'], []]);
  }));

test('a message for a session without a stream stays here when no node has answered; the next message does not wait', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const [a, b] = [await withClients(nodes, 'a', heard), await withClients(nodes, 'b', heard)];
    const asked = tapped(b, 'all', 'sought');
    flood(a, b);
    const { streams } = a.cluster;
    streams.deliver('s', NOTE);
    await nodes.pass(1_400);
    assert.deepEqual(heard, []);
    await nodes.pass(200);
    streams.deliver('s', NOTE);
    assert.deepEqual(heard.splice(0), ['a s', 'a s']);
    // The stream opens at `b` later.
    assert.equal(b.opens('s'), false);
    await nodes.pass(100);
    streams.deliver('s', NOTE);
    await nodes.pass(100);
    assert.deepEqual([heard.splice(0), asked], [['b s'], [['s']]]);
    // A stream opens here later, and was at no other node.
    streams.deliver('r', NOTE);
    await nodes.pass(1_600);
    assert.equal(a.opens('r'), false);
    assert.deepEqual(heard.splice(0), ['a r']);
    // A stream opens here while a message waits.
    streams.deliver('t', NOTE);
    assert.equal(a.opens('t'), true);
    assert.deepEqual(heard.splice(0), ['a t']);
    // The last node has no other to ask.
    await b.cluster.close();
    await nodes.pass(100);
    streams.deliver('u', NOTE);
    assert.deepEqual(heard, ['a u']);
  }));

test('a stream between two connections is found at the node that had it last, also by a node that joined since', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const open = new Set<string>();
    const [a, b] = [await withClients(nodes, 'a', heard), await withClients(nodes, 'b', heard, open)];
    b.opens('s');
    await nodes.pass(100);
    open.delete('s');
    const c = await withClients(nodes, 'c', heard);
    for (const node of [a, c]) {
      flood(node, b);
      node.cluster.streams.deliver('s', NOTE);
    }
    await nodes.pass(100);
    assert.deepEqual(heard, ['b s', 'b s']);
  }));

test('a node that missed messages asks the others for streams that it does not know', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const [a, b] = [await withClients(nodes, 'a', heard), await withClients(nodes, 'b', heard)];
    a.cut();
    b.opens('s');
    await nodes.pass(100);
    a.restore();
    await nodes.pass(100);
    a.cluster.streams.deliver('s', NOTE);
    await nodes.pass(100);
    assert.deepEqual(heard, ['b s']);
  }));

test('a node that lost all others in an outage asks them for streams that it does not know', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const open = new Set<string>();
    const [a, b] = [await withClients(nodes, 'a', heard), await withClients(nodes, 'b', heard, open)];
    a.cut();
    await nodes.pass(3_000);
    b.opens('s');
    await nodes.pass(100);
    // Between two connections: b does not announce it again.
    open.delete('s');
    a.restore();
    await nodes.pass(2_000);
    a.cluster.streams.deliver('s', NOTE);
    await nodes.pass(100);
    assert.deepEqual(heard, ['b s']);
  }));

test('messages for a stream go to its node again when this node alone had lost that node and has found it again', () =>
  onNodes(async (nodes) => {
    const { a, b, heard } = await openAtB(nodes);
    b.mute();
    await nodes.pass(2_500);
    a.cluster.streams.deliver('s', NOTE);
    await nodes.pass(100);
    assert.deepEqual(heard.splice(0), ['a s'], 'b is lost');
    b.unmute();
    await nodes.pass(1_500);
    a.cluster.streams.deliver('s', NOTE);
    await nodes.pass(100);
    assert.deepEqual(heard, ['b s']);
  }));

test('a node that missed the announcement that a stream moved learns its new node', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const open = new Set<string>();
    const [a, b, c] = [
      await withClients(nodes, 'a', heard),
      await withClients(nodes, 'b', heard, open),
      await withClients(nodes, 'c', heard),
    ];
    b.opens('s');
    await nodes.pass(100);
    a.cut();
    open.delete('s');
    c.opens('s');
    await nodes.pass(100);
    a.restore();
    await nodes.pass(100);
    a.cluster.streams.deliver('s', NOTE);
    await nodes.pass(100);
    assert.deepEqual(heard, ['c s']);
  }));

test('an outdated answer about a stream does not replace the node where it has opened since', () =>
  onNodes(async (nodes) => {
    const { a, b } = await openAtB(nodes);
    assert.equal(a.opens('s'), true);
    a.cluster.streams.foundAt('s', b.bus.peer);
    assert.equal(a.cluster.streams.opened('s'), false, 'it is still known to be here');
  }));

test('messages that wait for an answer have a bound; beyond it they count as for clients of this node, which is logged', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const logged: string[] = [];
    const logger = new Logger({ level: 'warn', write: (line) => logged.push(line) });
    const a = await withClients(nodes, 'a', heard, new Set(), logger);
    const b = await withClients(nodes, 'b', heard);
    flood(a, b);
    const large = notification('notifications/message', JSON.stringify({ data: 'x'.repeat(1 << 20) }), 'stateful');
    for (let i = 0; i < 20; i++) a.cluster.streams.deliver('s', large);
    assert.deepEqual(heard.splice(0), Array(5).fill('a s'));
    assert.equal(logged.filter((line) => line.includes('stream_not_sought')).length, 5);
    await nodes.pass(2_000);
    assert.deepEqual(heard.splice(0), Array(15).fill('a s'));
    for (let i = 0; i < 15; i++) a.cluster.streams.deliver('t', large);
    assert.deepEqual(heard, []);
  }));

test('streams that open within a moment are announced together, without those that have moved on', () =>
  onNodes(async (nodes) => {
    const heard: string[] = [];
    const [a, b] = [await withClients(nodes, 'a', heard), await withClients(nodes, 'b', heard)];
    const announced = tapped(a, b.bus.peer, 'streams');
    for (let i = 0; i < 2_501; i++) a.opens(`s${i}`);
    a.cluster.streams.openedAt('s7', b.bus.peer);
    await nodes.pass(100);
    assert.deepEqual(
      announced.map(({ length }) => length),
      [1, 999, 1_000, 500],
    );
    a.opens('later');
    await nodes.pass(0);
    assert.deepEqual(announced.at(-1), ['later']);
  }));

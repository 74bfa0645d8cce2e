import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_CLIENTS, onNodes } from '../../../test/support/cluster-bench.ts';
import { errorOf, notification, result } from '../../protocol/compose.ts';

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
    // Of this node, of none, and such as no node gives.
    for (const id of [`"${a.bus.peer}-1"`, '"ffffffffffffffff-1"', '"*-1"', `"${b.bus.peer}.x-1"`, '7', 'null']) {
      streams.forward('s', result(id, '{}', 'stateful'));
      assert.deepEqual(await said(), [], id);
    }
    const cancellation = notification('notifications/cancelled', '{"requestId":7}', 'stateful');
    streams.forward('s', cancellation);
    assert.deepEqual(await said(), [`b s ${cancellation.bytes}`, `c s ${cancellation.bytes}`]);
  }));

test('a stream that opens again at its node is told to a node that has joined since, and to no other', () =>
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

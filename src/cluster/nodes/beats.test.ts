import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBus, onNodes, serverNamed } from '../../../test/support/cluster-bench.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';

interface Heard {
  readonly subject: string;
  readonly from: string;
  readonly header: { readonly number?: number; readonly wants?: readonly string[]; readonly load?: number };
}

test('a node sends its view when it changes and every ten seconds, and small heartbeats in between', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [serverNamed('memory')]), await nodes.join('b', [])];
    await nodes.pass(2_000);
    const views: Heard[] = [];
    const beats: Heard[] = [];
    let bytes = 0;
    for (const [subject, heard] of [
      ['trunkline.node', views],
      ['trunkline.beat', beats],
    ] as const) {
      b.bus.subscribe(`${subject}.*`, (payload, from) => {
        if (from === a.bus.peer) heard.push({ subject, from, header: unpackFrame<Heard['header']>(payload).header });
        if (subject === 'trunkline.beat') bytes = payload.length;
      });
    }
    await nodes.pass(20_000);
    assert.equal(views.length, 2);
    assert.ok(beats.length >= 36, `${beats.length} beats`);
    assert.ok(bytes < 110, `${bytes} bytes`);
    views.length = 0;
    a.cluster.drain();
    await nodes.pass(100);
    assert.equal(views.length, 1);
    assert.equal(b.cluster.peers.get(a.bus.peer)?.state, 'draining');
    await nodes.pass(3_000);
    assert.equal(b.cluster.known.nodes().length, 2, 'beats keep a node in the cluster');
  }));

test('a node that missed a view asks for it; while a node of an earlier version is there, only views are sent', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', []), await nodes.join('b', [])];
    await nodes.pass(2_000);
    const heard: string[] = [];
    const wants: string[] = [];
    for (const subject of ['trunkline.node', 'trunkline.beat']) {
      b.bus.subscribe(`${subject}.*`, (payload, from) => {
        if (from === a.bus.peer) heard.push(subject);
        wants.push(...(unpackFrame<Heard['header']>(payload).header.wants ?? []));
      });
    }
    const testimony = { beat: 1_000, lease: 0 };
    b.bus.publish(`trunkline.beat.${b.bus.peer}`, packFrame({ number: 99, testimony, load: 7 }));
    await nodes.pass(1_000);
    assert.equal(a.cluster.peers.get(b.bus.peer)?.load, 0, 'its next beat has the real load');
    assert.deepEqual(wants, [b.bus.peer]);
    assert.ok(heard.includes('trunkline.node'));
    heard.length = 0;
    await nodes.pass(2_000);
    assert.deepEqual([...new Set(heard)], ['trunkline.beat']);
    const earlier = memoryBus(nodes.hub, nodes.clock);
    const view = { ...b.cluster.peers.self, id: 'earlier', peer: earlier.peer };
    earlier.publish(`trunkline.node.${earlier.peer}`, packFrame(view));
    await nodes.pass(100);
    heard.length = 0;
    await nodes.pass(1_000);
    assert.deepEqual([...new Set(heard)], ['trunkline.node']);
    await earlier.close();
  }));

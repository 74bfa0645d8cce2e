import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CuttableHub, type CuttableWire } from '../../../test/support/cuttable-wire.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { SignedBus } from '../../bus/signed-bus.ts';
import { KeyRing } from '../../bus/trust/key-ring.ts';
import { packFrame } from '../../cluster/frames/frame.ts';
import type { NodeView } from '../../cluster/nodes/node-state.ts';
import { systemRandom } from '../../model/random.ts';
import { Logger } from '../../telemetry/logger.ts';
import { OpenCalls } from './open-calls.ts';

const LOST = Buffer.from('UNKNOWN');

interface Witness {
  readonly wire: CuttableWire;
  readonly peer: string;
  readonly bus: SignedBus;
  readonly calls: OpenCalls;
}

/** Nodes on one hub, the first witness first. The others do not see a node that is not in `here`. */
class Stage {
  readonly clock = new FakeClock();
  readonly hub = new CuttableHub();
  readonly nodes: Witness[];
  readonly here: Set<Witness>;
  readonly program: CuttableWire;
  /** The replies on each subject. */
  readonly replies: string[] = [];
  reported = 0;

  /** `ofBefore`: the others are nodes of the previous version. */
  constructor(count: number, ofBefore = false) {
    const program = (this.program = this.hub.open());
    program.subscribe('reply.>', ({ subject, payload }) => this.replies.push(`${subject.slice(6)} ${payload}`));
    this.hub.open().subscribe('trunkline.public.calls', () => this.reported++);
    const keys = new KeyRing(['a secret of the cluster, thirty-two bytes at least']);
    const logger = Logger.silent();
    this.nodes = Array.from({ length: count }, () => {
      const wire = this.hub.open();
      const bus = new SignedBus({ wire, clock: this.clock, keys, random: systemRandom, logger });
      const others = (): NodeView[] =>
        [...this.here]
          .filter(({ peer }) => peer !== bus.peer)
          .map(({ peer }) => ({ peer, ...(ofBefore ? {} : { publicCalls: true }) }) as NodeView);
      const calls = new OpenCalls({
        bus,
        wire,
        clock: this.clock,
        cluster: { peers: { others }, loop: { wasStalled: () => false } },
      });
      return { wire, peer: bus.peer, bus, calls };
    }).sort((a, b) => (a.peer < b.peer ? -1 : 1));
    this.here = new Set(this.nodes);
  }

  /** A request comes to all nodes, and `taker` runs it. */
  request(reply: string, taker: Witness | undefined): void {
    for (const { calls, wire } of this.nodes) if (wire.connected) calls.seen(`reply.${reply}`, LOST);
    void taker?.calls.take(`reply.${reply}`);
  }

  kill(node: Witness): void {
    node.wire.cut();
    this.here.delete(node);
  }
}

test('S0.18 one witness answers a call that no node runs, also where the first witness is gone too', async () => {
  const stage = new Stage(4);
  const [first, second, , taker] = stage.nodes as [Witness, Witness, Witness, Witness];
  stage.request('a', taker);
  await stage.clock.advance(10_000);
  assert.deepEqual(stage.replies, [], 'a call that a node handles was answered');
  stage.kill(taker);
  await stage.clock.advance(1_000);
  stage.kill(first);
  await stage.clock.advance(1_000);
  assert.deepEqual(stage.replies, ['a UNKNOWN']);
  second.calls.answer('reply.b', Buffer.from('RESULT'));
  await stage.clock.advance(10_000);
  assert.deepEqual(stage.replies, ['a UNKNOWN', 'b RESULT']);
});

test('S0.18 a node may be killed before it has sent anything', async () => {
  const stage = new Stage(2);
  const [witness, taker] = stage.nodes as [Witness, Witness];
  stage.kill(taker);
  witness.calls.seen('reply.a', LOST);
  await stage.clock.advance(2_000);
  assert.deepEqual(stage.replies, ['a UNKNOWN']);
});

test('several calls on one reply subject are counted', async () => {
  const stage = new Stage(3);
  const [, one, other] = stage.nodes as [Witness, Witness, Witness];
  stage.request('a', one);
  stage.request('a', other);
  stage.request('a', one);
  await stage.clock.advance(600);
  one.calls.answer('reply.a', Buffer.from('RESULT'));
  one.calls.answer('reply.a', Buffer.from('RESULT'));
  stage.kill(other);
  await stage.clock.advance(2_500);
  assert.deepEqual(stage.replies, ['a RESULT', 'a RESULT', 'a UNKNOWN']);
});

test('an answer that arrives before its request ends the call', async () => {
  const stage = new Stage(2);
  const [witness, taker] = stage.nodes as [Witness, Witness];
  void taker.calls.take('reply.a');
  taker.calls.answer('reply.a', Buffer.from('RESULT'));
  await stage.clock.advance(100);
  for (const { calls } of stage.nodes) calls.seen('reply.a', LOST);
  await stage.clock.advance(5_000);
  assert.deepEqual(stage.replies, ['a RESULT']);
  // The next call on the same subject is another one.
  stage.kill(taker);
  witness.calls.seen('reply.a', LOST);
  await stage.clock.advance(2_000);
  assert.deepEqual(stage.replies, ['a RESULT', 'a UNKNOWN']);
});

test('a witness that was away asks before it answers', async () => {
  const stage = new Stage(2);
  const [witness, taker] = stage.nodes as [Witness, Witness];
  stage.request('a', taker);
  await stage.clock.advance(600);
  witness.wire.cut();
  taker.calls.answer('reply.a', Buffer.from('RESULT'));
  await stage.clock.advance(5_000);
  witness.wire.restore();
  await stage.clock.advance(5_000);
  assert.deepEqual(stage.replies, ['a RESULT']);
});

test('a node that returns does not answer calls that another node has answered', async () => {
  const stage = new Stage(2);
  const [, taker] = stage.nodes as [Witness, Witness];
  stage.request('a', taker);
  stage.request('b', taker);
  await stage.clock.advance(600);
  // Neither sees the other when the connection is back: heartbeats come later.
  stage.kill(taker);
  const witness = stage.nodes[0]!;
  stage.here.delete(witness);
  await stage.clock.advance(3_000);
  assert.deepEqual(stage.replies.toSorted(), ['a UNKNOWN', 'b UNKNOWN']);
  taker.calls.answer('reply.a', Buffer.from('RESULT'));
  taker.wire.restore();
  await stage.clock.advance(50);
  taker.calls.answer('reply.b', Buffer.from('RESULT'));
  await stage.clock.advance(5_000);
  assert.equal(stage.replies.length, 2, stage.replies.join(', '));
  assert.equal(taker.calls.heldCount, 0);
});

test('the node where a call runs answers it once when the node that took it is gone', async () => {
  for (const when of ['before', 'after']) {
    const stage = new Stage(3);
    const [, origin, taker] = stage.nodes as [Witness, Witness, Witness];
    stage.request('a', taker);
    const ended = origin.calls.trackForwarded('reply.a', taker.peer);
    await stage.clock.advance(600);
    // The taker may be lost after it received the answer.
    if (when === 'before') ended(Buffer.from('RESULT'));
    stage.kill(taker);
    await stage.clock.advance(3_000);
    if (when === 'after') ended(Buffer.from('RESULT'));
    await stage.clock.advance(3_000);
    assert.deepEqual(stage.replies, ['a RESULT'], when);
  }
});

test('beside a node of an earlier version only calls known to be lost are answered', async () => {
  const stage = new Stage(2, true);
  const [, taker] = stage.nodes as [Witness, Witness];
  stage.request('of the old node', undefined);
  stage.request('a', taker);
  await stage.clock.advance(600);
  stage.kill(taker);
  stage.here.add({ ...taker, peer: 'ffffffffffffffff' });
  await stage.clock.advance(10_000);
  assert.deepEqual(stage.replies, ['a UNKNOWN']);
});

test('S0.18 fault:F28 only an answer sent into a dead connection is sent again when the node is back', async () => {
  for (const count of [1, 2]) {
    const stage = new Stage(count);
    const taker = stage.nodes.at(-1)!;
    for (const reply of ['a', 'b']) stage.request(reply, taker);
    await stage.clock.advance(600);
    taker.calls.answer('reply.a', Buffer.from('RESULT'));
    await stage.clock.advance(100);
    taker.wire.die();
    taker.calls.answer('reply.b', Buffer.from('RESULT'));
    await stage.clock.advance(100);
    assert.deepEqual([stage.replies, taker.calls.heldCount], [['a RESULT'], 1]);
    taker.wire.cut();
    await stage.clock.advance(500);
    taker.wire.restore();
    await stage.clock.advance(10_000);
    assert.deepEqual(stage.replies, ['a RESULT', 'b RESULT'], `${count} nodes`);
    assert.equal(taker.calls.heldCount, 0);
  }
});

test('S0.18 an answer that went into a dead connection is not sent again where another node has answered meanwhile', async () => {
  const stage = new Stage(2);
  const [, taker] = stage.nodes as [Witness, Witness];
  stage.request('a', taker);
  await stage.clock.advance(600);
  taker.wire.die();
  taker.calls.answer('reply.a', Buffer.from('RESULT'));
  await stage.clock.advance(3_000);
  taker.wire.cut();
  taker.wire.restore();
  await stage.clock.advance(10_000);
  assert.deepEqual([stage.replies, taker.calls.heldCount], [['a UNKNOWN'], 0]);
});

test('S0.18 a witness with a dead connection takes over no call; once connected again it answers for a lost node', async () => {
  const stage = new Stage(3);
  const [witness, taker] = stage.nodes as [Witness, Witness];
  stage.request('a', taker);
  await stage.clock.advance(600);
  stage.request('of the living', stage.nodes[2]);
  stage.kill(taker);
  witness.wire.die();
  await stage.clock.advance(3_000);
  assert.equal(witness.calls.heldCount, 0);
  witness.wire.cut();
  witness.wire.restore();
  await stage.clock.advance(10_000);
  stage.nodes[2]!.calls.answer('reply.of the living', Buffer.from('RESULT'));
  await stage.clock.advance(10_000);
  assert.deepEqual(stage.replies, ['a UNKNOWN', 'of the living RESULT']);
});

test('S0.18 fault:F28 after an outage an answer that waits for the calling program stays the only one', async () => {
  for (const back of [1_000, 3_000, 8_000]) {
    const stage = new Stage(3);
    const [, other, taker] = stage.nodes as [Witness, Witness, Witness];
    stage.request('a', taker);
    stage.request('b', other);
    await stage.clock.advance(600);
    for (const { wire } of [...stage.nodes, { wire: stage.program }]) wire.cut();
    taker.calls.answer('reply.a', Buffer.from('RESULT'));
    other.calls.answer('reply.b', Buffer.from('RESULT'));
    await stage.clock.advance(600);
    for (const { wire } of stage.nodes) wire.restore();
    await stage.clock.advance(back);
    stage.program.restore();
    await stage.clock.advance(10_000);
    assert.deepEqual(stage.replies.toSorted(), ['a RESULT', 'b RESULT'], `the program is back after ${back} ms`);
    assert.deepEqual(
      stage.nodes.map(({ calls }) => calls.heldCount),
      [0, 0, 0],
    );
  }
});

test('S0.18 fault:F28 an UNKNOWN that waits for the calling program stays the only answer', async () => {
  for (const returns of [false, true]) {
    const stage = new Stage(3);
    const taker = stage.nodes[2]!;
    stage.request('a', taker);
    await stage.clock.advance(600);
    for (const { wire } of [...stage.nodes, { wire: stage.program }]) wire.cut();
    for (const { wire } of stage.nodes.slice(0, 2)) wire.restore();
    await stage.clock.advance(4_000);
    if (returns) taker.wire.restore();
    taker.calls.answer('reply.a', Buffer.from('RESULT'));
    await stage.clock.advance(4_000);
    stage.program.restore();
    await stage.clock.advance(10_000);
    assert.deepEqual(stage.replies, ['a UNKNOWN'], returns ? 'the node returns' : 'the node does not return');
  }
});

test('S0.18 fault:F28 an answer that waits for the calling program is dropped if another node takes the call', async () => {
  const stage = new Stage(2);
  const [witness, taker] = stage.nodes as [Witness, Witness];
  stage.request('a', taker);
  await stage.clock.advance(600);
  for (const { wire } of [...stage.nodes, { wire: stage.program }]) wire.cut();
  for (const { wire } of stage.nodes) wire.restore();
  taker.calls.answer('reply.a', Buffer.from('RESULT'));
  await stage.clock.advance(1_000);
  assert.equal(taker.calls.heldCount, 1);
  // As after a pause of the taker.
  witness.bus.publish('trunkline.public.calls', packFrame({ adopted: ['reply.a'] }));
  await stage.clock.advance(500);
  stage.program.restore();
  await stage.clock.advance(500);
  assert.deepEqual([stage.replies, taker.calls.heldCount], [[], 0]);
});

test('a lone node sends nothing, and many short calls share a message', async () => {
  const alone = new Stage(1);
  for (let i = 0; i < 50; i++) {
    alone.request(`${i}`, alone.nodes[0]);
    alone.nodes[0]!.calls.answer(`reply.${i}`, LOST);
  }
  await alone.clock.advance(5_000);
  assert.deepEqual([alone.reported, alone.replies.length], [0, 50]);
  const stage = new Stage(2);
  for (let i = 0; i < 50; i++) {
    stage.request(`${i}`, stage.nodes[0]);
    stage.nodes[0]!.calls.answer(`reply.${i}`, LOST);
  }
  await stage.clock.advance(5_000);
  await settled();
  assert.deepEqual([stage.reported, stage.replies.length], [1, 50]);
});

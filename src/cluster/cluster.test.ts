import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  memoryBus,
  onNodes,
  type PlayedNode,
  remoteSpec,
  serverNamed,
  TestExchange,
} from '../../test/support/cluster-bench.ts';
import { answer, type Outcome } from '../model/outcome.ts';
import { notification, request, result } from '../protocol/compose.ts';
import { packFrame } from './frames/frame.ts';

function call(node: PlayedNode, server: string, exchange = new TestExchange()): Promise<Outcome> {
  return node.cluster.upstreams.call(server, exchange.request, exchange);
}

function textOf(outcome: Outcome): string {
  return outcome.kind === 'answer' ? outcome.message.body.toString() : `${outcome.error.code} ${outcome.error.message}`;
}

function wordOf(outcome: Outcome): string {
  return outcome.kind === 'answer' ? 'RESULT' : outcome.error.outcome;
}

test("a server of another node's file is called there, byte for byte, with its messages and input requests", () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [serverNamed('memory', { transport: remoteSpec })]);
    assert.deepEqual(
      a.cluster.upstreams.servers().map(({ name }) => name),
      ['memory'],
    );
    let asked = '';
    b.local.handle = ({ exchange, request: message, end }) => {
      exchange.emit(notification('notifications/progress', '{"progress":1.0}', 'stateful'));
      void exchange.ask(request('roots/list', '"q"', null, 'stateful')).then((reply) => {
        asked = reply.bytes.toString();
        end(answer(result('3', `{"echo":${message.body.toString()}}`, 'stateful')));
      });
    };
    const exchange = new TestExchange();
    const outcome = await nodes.until(call(a, 'memory', exchange));
    assert.equal(textOf(outcome), '{"echo":{"name":"t","arguments":{"n":12345678901234567890}}}');
    assert.deepEqual(exchange.emitted, [
      '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.0}}',
    ]);
    assert.match(exchange.asked[0]!, /roots\/list/);
    assert.match(asked, /"answer":1\.0/);
  }));

test('fault:F29 a node that falls behind its bus sends its view at once, and is not ready until it keeps up, unless all nodes fall behind', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', []);
    assert.equal(a.cluster.notReady, null);
    let asked = 0;
    b.bus.subscribe('trunkline.node.*', (_payload, from) => {
      if (from === a.bus.peer) asked++;
    });
    a.overrun();
    await nodes.pass(100);
    assert.match(a.cluster.degraded.join(), /does not keep up/);
    assert.ok(asked > 0, 'it sends its view at once');
    await nodes.pass(2_500);
    assert.match(a.cluster.notReady ?? '', /does not keep up/);
    assert.equal(b.cluster.notReady, null);
    await nodes.pass(2_500);
    assert.equal(a.cluster.notReady, null);
    for (const one of [a, b]) one.overrun();
    await nodes.pass(6_000, () => assert.deepEqual([a.cluster.notReady, b.cluster.notReady], [null, null]));
  }));

test('a cluster has no limit of nodes', () =>
  onNodes(async (nodes) => {
    const { cluster } = await nodes.join('a', []);
    for (let at = 0; at < 400; at++) {
      const bus = memoryBus(nodes.hub, nodes.clock);
      const view = { ...cluster.view, id: `n${at}`, peer: bus.peer };
      bus.publish(`trunkline.node.${bus.peer}`, packFrame(view));
    }
    await nodes.pass(100);
    assert.equal(cluster.known.nodes().length, 401);
  }));

test('check:H5 a cancelled call is cancelled at the node that serves it', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [serverNamed('memory', { transport: remoteSpec })]);
    b.local.keeps = true;
    const exchange = new TestExchange();
    const running = call(a, 'memory', exchange);
    await nodes.pass(200);
    const reasons: string[] = [];
    b.local.calls[0]!.exchange.onCancel = (reason) => reasons.push(reason);
    exchange.cancel('the client left');
    const outcome = await nodes.until(running);
    assert.equal(outcome.kind === 'failure' && outcome.error.code, 'CANCELLED');
    await nodes.pass(100);
    assert.deepEqual(reasons, ['the client left']);
  }));

test('fault:F29 the caller’s node ends a call itself when the server’s node does not report its deadline', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const slow = { transport: remoteSpec, timeoutMs: 5_000, toolTimeoutMs: new Map([['t', 8_000]]) };
    const b = await nodes.join('b', [serverNamed('slow', slow)]);
    b.local.keeps = true;
    const running = call(a, 'slow');
    let over = false;
    void running.then(() => {
      over = true;
    });
    await nodes.pass(8_000);
    assert.equal(over, false, 'the server’s node has time to report its deadline');
    await nodes.pass(800);
    assert.equal(over, true);
    const outcome = await running;
    assert.ok(outcome.kind === 'failure');
    assert.deepEqual([outcome.error.code, outcome.error.outcome], ['TIMEOUT', 'UNKNOWN']);
  }));

test('fault:F30 check:H7 the owner dies during a call: UNKNOWN within 2 s, and the next call goes to another instance', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('files', { transport: remoteSpec });
    const a = await nodes.join('a', []);
    const instances = [await nodes.join('b', [server]), await nodes.join('c', [server])];
    for (const { local } of instances) local.keeps = true;
    const exchange = new TestExchange();
    const running = call(a, 'files', exchange);
    await nodes.pass(300);
    const owner = instances.find(({ local }) => local.calls.length > 0)!;
    owner.cut();
    const cutAt = nodes.clock.now();
    const outcome = await nodes.until(running);
    assert.equal(wordOf(outcome), 'UNKNOWN');
    assert.ok(nodes.clock.now() - cutAt <= 2_000, `${nodes.clock.now() - cutAt} ms`);
    const other = instances.find((node) => node !== owner)!;
    other.local.keeps = false;
    assert.equal(textOf(await nodes.until(call(a, 'files'))), `{"node":"${other.id}"}`);
  }));

test('check:C4 check:H4 the processes of a session stay where they started, and all nodes can call them', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('memory', { isolation: 'session' });
    const [a, b] = [await nodes.join('a', [server]), await nodes.join('b', [server])];
    assert.equal(textOf(await nodes.until(call(a, 'memory', new TestExchange('one')))), '{"node":"a"}');
    assert.equal(textOf(await nodes.until(call(b, 'memory', new TestExchange('one')))), '{"node":"a"}');
    assert.equal(textOf(await nodes.until(call(b, 'memory', new TestExchange('two')))), '{"node":"b"}');
    assert.equal(textOf(await nodes.until(call(a, 'memory', new TestExchange('two')))), '{"node":"b"}');
  }));

test('fault:F29 fault:F31: a node that is cut off stops by its own clock before another one takes over: never two owners', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('memory', { isolation: 'session' });
    const [a, b] = [await nodes.join('a', [server]), await nodes.join('b', [server])];
    await nodes.until(call(a, 'memory', new TestExchange('one')));
    a.local.keeps = true;
    const stuck = call(a, 'memory', new TestExchange('one'));
    await nodes.pass(100);
    a.cut();
    const cutAt = nodes.clock.now();
    let both = 0;
    let fencedAt = 0;
    let takenAt = 0;
    await nodes.pass(1_550);
    const taken = call(b, 'memory', new TestExchange('one'));
    await nodes.pass(5_000, () => {
      const fenced = a.cluster.state === 'fenced';
      const owned = b.local.calls.length > 0;
      if (!fenced && owned) both++;
      if (fenced && fencedAt === 0) fencedAt = nodes.clock.now() - cutAt;
      if (owned && takenAt === 0) takenAt = nodes.clock.now() - cutAt;
    });
    assert.equal(both, 0);
    assert.ok(fencedAt > 0 && fencedAt <= 2_050, `fenced after ${fencedAt} ms`);
    assert.ok(takenAt >= 2_000 && takenAt <= 3_000, `taken after ${takenAt} ms`);
    assert.equal(textOf(await taken), '{"node":"b"}');
    assert.equal(wordOf(await stuck), 'UNKNOWN');
    assert.deepEqual(
      b.events.heard.filter((text) => text.startsWith('stateLost')),
      ['stateLost memory one'],
    );
    const refused = await nodes.until(call(a, 'memory', new TestExchange('three')));
    assert.equal(wordOf(refused), 'NOT_SENT');
    assert.equal(refused.kind === 'failure' && refused.error.data.retryable, true);
    a.restore();
    await nodes.pass(2_000);
    assert.equal(a.cluster.state, 'ready');
    assert.deepEqual(a.local.surrendered, ['memory one']);
    assert.equal(textOf(await nodes.until(call(a, 'memory', new TestExchange('one')))), '{"node":"b"}');
  }));

test('fault:F28: claims that no node took while the bus was away are used again, under their own epoch', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('memory', { isolation: 'session' });
    const shared = serverNamed('shared', { isolation: 'shared' });
    const a = await nodes.join('a', [server, shared]);
    const owned = await a.cluster.ownership.acquire(server, new TestExchange('one').client, 'session');
    const { epoch } = owned;
    await nodes.until(call(a, 'memory', new TestExchange('one')));
    a.cut();
    await nodes.pass(5_000);
    assert.equal(owned.isHeld, false);
    assert.equal(wordOf(await nodes.until(call(a, 'memory', new TestExchange('one')))), 'NOT_SENT');
    assert.equal(textOf(await nodes.until(call(a, 'shared', new TestExchange('one')))), '{"node":"a"}');
    a.restore();
    await nodes.pass(2_000);
    assert.equal(owned.isHeld, true);
    assert.equal(owned.epoch, epoch);
    assert.deepEqual(a.local.surrendered, []);
    assert.equal(textOf(await nodes.until(call(a, 'memory', new TestExchange('one')))), '{"node":"a"}');
  }));

test('check:H5 a call looks for its node no longer than its timeout', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('memory', { isolation: 'session', timeoutMs: 300 });
    const [a, b] = [await nodes.join('a', [server]), await nodes.join('b', [server])];
    assert.equal(textOf(await nodes.until(call(b, 'memory', new TestExchange('one')))), '{"node":"b"}');
    b.cut();
    // Node a knows that b is gone, but the lease of b has not expired.
    await nodes.pass(1_700);
    const calledAt = nodes.clock.now();
    const outcome = await nodes.until(call(a, 'memory', new TestExchange('one')));
    assert.equal(wordOf(outcome), 'NOT_SENT');
    assert.match(textOf(outcome), /but its lease has not expired/);
    assert.ok(nodes.clock.now() - calledAt <= 500, `${nodes.clock.now() - calledAt} ms`);
  }));

test('a singleton runs on one node, all nodes can call it, and it moves when that node is gone', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('one', { singleton: true });
    const all = [await nodes.join('a', [server]), await nodes.join('b', [server]), await nodes.join('c', [server])];
    const running = () => all.filter(({ local }) => local.desired.has('one')).map(({ id }) => id);
    await nodes.pass(1_500);
    assert.deepEqual(running(), ['a']);
    for (const node of all) assert.equal(textOf(await nodes.until(call(node, 'one'))), '{"node":"a"}');
    all[0]!.cut();
    await nodes.pass(6_000);
    const moved = running().filter((id) => id !== 'a');
    assert.equal(moved.length, 1, running().join());
    assert.equal(textOf(await nodes.until(call(all[1]!, 'one'))), `{"node":"${moved[0]}"}`);
    assert.equal(textOf(await nodes.until(call(all[2]!, 'one'))), `{"node":"${moved[0]}"}`);
    all[0]!.restore();
    await nodes.pass(3_000);
    assert.deepEqual(running(), moved);
    assert.equal(textOf(await nodes.until(call(all[0]!, 'one'))), `{"node":"${moved[0]}"}`);
  }));

test('unsolicited messages of a server go to the node that has the session', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [serverNamed('memory', { isolation: 'session' })]);
    await nodes.until(call(a, 'memory', new TestExchange('one')));
    b.cluster.events.notification('memory', 'one', notification('notifications/message', '{}', 'stateful'), 'one');
    b.cluster.events.contentChanged('memory', null);
    const reply = b.cluster.events.request('memory', 'one', request('roots/list', '5', null, 'stateful'), 'one');
    assert.match((await nodes.until(reply)).bytes.toString(), /"roots":\[\]/);
    await nodes.pass(100);
    assert.deepEqual(
      a.events.heard.filter((text) => !text.startsWith('catalogChanged')),
      ['notification memory one notifications/message', 'outdated memory', 'request memory one roots/list'],
    );
    assert.deepEqual(b.events.heard, ['outdated memory']);
    a.cluster.upstreams.releaseSession('one');
    await nodes.pass(200);
    assert.deepEqual(b.local.released, ['one']);
  }));

test('a node that this node alone had lost still gets the notifications of the servers that its clients use, for a minute', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', [serverNamed('memory', { transport: remoteSpec })]);
    const b = await nodes.join('b', []);
    await nodes.until(call(b, 'memory'));
    const isNotified = async (): Promise<boolean> => {
      const sent = notification('notifications/message', '{}', 'stateful');
      a.cluster.events.notification('memory', null, sent, 'key');
      await nodes.pass(100);
      return b.events.heard.splice(0).includes('notification memory null notifications/message');
    };
    b.mute();
    await nodes.pass(3_000);
    assert.equal(a.cluster.peers.get(b.bus.peer), null);
    assert.equal(await isNotified(), true, 'it is lost');
    b.unmute();
    await nodes.pass(60_000);
    assert.equal(await isNotified(), true, 'it is back');
    b.mute();
    await nodes.pass(63_000);
    assert.equal(await isNotified(), false, 'a minute has passed');
  }));

test('a draining node takes no new sessions, and other nodes get its sessions as soon as it has left', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('memory', { isolation: 'session' });
    const [a, b] = [await nodes.join('a', [server]), await nodes.join('b', [server])];
    await nodes.until(call(a, 'memory', new TestExchange('one')));
    a.cluster.drain();
    await nodes.pass(200);
    assert.equal(a.cluster.notReady, 'draining');
    assert.equal(textOf(await nodes.until(call(a, 'memory', new TestExchange('one')))), '{"node":"a"}');
    assert.equal(textOf(await nodes.until(call(a, 'memory', new TestExchange('new')))), '{"node":"b"}');
    const closing = a.cluster.close();
    await nodes.pass(100);
    await closing;
    const leftAt = nodes.clock.now();
    assert.equal(textOf(await nodes.until(call(b, 'memory', new TestExchange('one')))), '{"node":"b"}');
    assert.ok(nodes.clock.now() - leftAt < 500, `${nodes.clock.now() - leftAt} ms`);
  }));

test('fault:F28: with onBusLoss serve a node keeps serving what it owns, until another node has taken it', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('memory', { isolation: 'session' });
    const a = await nodes.join('a', [server], { onBusLoss: 'serve' });
    const b = await nodes.join('b', [server]);
    await nodes.until(call(a, 'memory', new TestExchange('one')));
    await nodes.until(call(a, 'memory', new TestExchange('two')));
    assert.deepEqual(a.cluster.degraded, []);
    a.cut();
    await nodes.pass(5_000);
    assert.deepEqual([a.cluster.state, a.cluster.notReady], ['ready', null]);
    assert.match(a.cluster.degraded.join(), /^this node does not reach NATS and goes on with what it owns/);
    assert.equal(textOf(await nodes.until(call(a, 'memory', new TestExchange('one')))), '{"node":"a"}');
    assert.equal(textOf(await nodes.until(call(b, 'memory', new TestExchange('one')))), '{"node":"b"}');
    a.restore();
    await nodes.pass(2_000);
    assert.deepEqual(a.cluster.degraded, []);
    assert.deepEqual(a.local.surrendered, ['memory one']);
    assert.equal(textOf(await nodes.until(call(a, 'memory', new TestExchange('one')))), '{"node":"b"}');
    assert.equal(textOf(await nodes.until(call(b, 'memory', new TestExchange('two')))), '{"node":"a"}');
  }));

test('different definitions of one server: calls go to the one that most nodes have, from everywhere', () =>
  onNodes(async (nodes) => {
    const one = serverNamed('memory', { isolation: 'shared', timeoutMs: 1_000 });
    const other = serverNamed('memory', { isolation: 'shared', timeoutMs: 2_000 });
    const a = await nodes.join('a', [one]);
    assert.deepEqual(a.cluster.known.conflicts, []);
    const b = await nodes.join('b', [other]);
    assert.equal(textOf(await nodes.until(call(b, 'memory'))), '{"node":"a"}');
    const c = await nodes.join('c', [other]);
    for (const node of [a, b, c]) {
      assert.deepEqual(node.cluster.known.conflicts, [{ server: 'memory', sides: [['b', 'c'], ['a']] }]);
    }
    assert.match(textOf(await nodes.until(call(a, 'memory'))), /"node":"[bc]"/);
    assert.equal(textOf(await nodes.until(call(b, 'memory', new TestExchange(null)))), '{"node":"b"}');
    assert.equal(a.cluster.upstreams.servers()[0]?.timeoutMs, 2_000);
  }));

test('load is spread by use: a node that joins takes new sessions at once, and old ones stay', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('files', { transport: remoteSpec });
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [server]);
    const servedBy = async (session: string) => textOf(await nodes.until(call(a, 'files', new TestExchange(session))));
    for (const session of ['s1', 's2', 's3']) assert.equal(await servedBy(session), '{"node":"b"}');
    b.local.keeps = true;
    for (let i = 0; i < 4; i++) void call(a, 'files', new TestExchange('s1'));
    await nodes.pass(600);
    b.local.keeps = false;
    await nodes.join('c', [server]);
    const news = await Promise.all(['n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7', 'n8'].map(servedBy));
    assert.ok(news.includes('{"node":"c"}'), news.join());
    assert.equal(await servedBy('s2'), '{"node":"b"}');
    for (const { end } of b.local.calls) end(answer(result('1', '{}', 'stateful')));
    await nodes.pass(100);
  }));

test('a call for an earlier run of a node, or an earlier owner, does not begin', () =>
  onNodes(async (nodes) => {
    const server = serverNamed('memory', { isolation: 'session' });
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [server]);
    await nodes.until(call(a, 'memory', new TestExchange('one')));
    b.cut();
    await nodes.pass(5_000);
    b.restore();
    await nodes.pass(1_500);
    const before = b.local.calls.length;
    assert.equal(textOf(await nodes.until(call(a, 'memory', new TestExchange('one')))), '{"node":"b"}');
    assert.equal(b.local.calls.length, before + 1);
  }));

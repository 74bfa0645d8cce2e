import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { callable, onCluster, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { LeftLog } from '../support/left-log.ts';
import type { Event, EventReader, Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

interface Stage {
  readonly nodes: ClusterProcesses;
  readonly log: LeftLog;
  /** The server runs here. */
  readonly a: NodeProcess;
  /** Clients connect here first, and the test kills it. */
  readonly b: NodeProcess;
}

/** Two nodes; the second has no servers of its own, and the test kills it. */
const stage = (run: (stage: Stage) => Promise<void>): Promise<void> =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      await using log = await LeftLog.open(nodes.nats);
      const a = await nodes.node('a', { counter: counterServer() });
      const b = await nodes.node('b', {});
      await callable(b, 'counter');
      await run({ nodes, log, a, b });
    },
  );

/** The same session at this node. */
function at(node: NodeProcess, { sessionId }: WireClient): WireClient {
  const client = new WireClient(node.serverUrl('counter'), 'stateful');
  client.sessionId = sessionId;
  return client;
}

async function die(node: NodeProcess): Promise<void> {
  node.kill('SIGKILL');
  await node.exited;
}

/** Begins a call that answers when its file exists; returns its stream and the first event of that. */
async function begun(node: NodeProcess, file: string, more: object = {}, by: WireClient | null = null) {
  const client = by ?? (await WireClient.open(node.serverUrl('counter')));
  const params = { name: 'wait', arguments: { file, ...more }, _meta: { progressToken: 'p' } };
  const stream = (await client.post({ jsonrpc: '2.0', id: 7, method: 'tools/call', params })) as EventReader;
  const first = await said(stream);
  assert.equal(JSON.parse(first.data).params.progress, 1);
  return { client, stream, first };
}

/** Lists change when servers come and go; these notifications arrive at any time, and the tests ignore them. */
const OF_LISTS = /"notifications\/[a-z]+\/list_changed"/;

/** The next event that has a message. */
async function said(stream: EventReader): Promise<Event> {
  for (;;) {
    const event = await stream.next();
    assert.ok(event !== null, 'the stream has ended');
    if (event.data !== '' && !OF_LISTS.test(event.data)) return event;
  }
}

/** How many events after this one the log contains. */
async function kept(log: LeftLog, { sessionId }: WireClient, { id }: Event): Promise<number> {
  const left = await log.after(sessionId!, id!);
  return left?.events.filter(({ message }) => message === null || !OF_LISTS.test(message.toString())).length ?? 0;
}

const messages = async (stream: EventReader): Promise<Json[]> =>
  (await stream.rest()).filter(({ data }) => data !== '').map(({ data }) => JSON.parse(data));
const dataOf = ({ data }: Event): Json => JSON.parse(data).params.data;

test('check:C9 check:H7 fault:F30 a client whose node died returns to another one and gets the answer of the node that runs its call', () =>
  stage(async ({ nodes, log, a, b }) => {
    const c = await nodes.node('c', {});
    await callable(c, 'counter');
    const file = join(nodes.folder, 'go');
    const { client, stream, first } = await begun(b, file);
    await until(async () => (await log.after(client.sessionId!, first.id!))?.unanswered.length === 1, 'the open call');
    await die(b);
    assert.equal(await stream.next(), null);
    // The call still runs; the client asks its node and a third one. A connection that is lost again changes nothing.
    (await at(c, client).listen(first.id!)).drop();
    const waiting = await Promise.all([a, c].map((node) => at(node, client).listen(first.id!)));
    const stranger = await WireClient.open(a.serverUrl('counter'));
    assert.equal((await stranger.listen(first.id!)).status, 400);
    assert.equal((await at(a, client).listen(first.id!.replace(/^p.{8}/, 'p00000000'))).status, 400);
    assert.equal((await at(a, client).listen(first.id!.replace('~', '1~'))).status, 400);
    writeFileSync(file, '');
    // After the call, the client gets the answer as often as it asks.
    for (const rest of [...waiting, await at(a, client).listen(first.id!), await at(c, client).listen(first.id!)]) {
      const [answer, ...more] = await messages(rest);
      assert.equal(answer.id, 7);
      assert.equal(answer.result.content[0].text, 'waited');
      assert.deepEqual(more, []);
    }
    // The session continues.
    assert.equal(await at(a, client).callText('count'), '1');
  }));

test('check:C9 check:H7 fault:F30 the answer to a request of any length is found at the node that runs its call', () =>
  stage(async ({ nodes, log, a, b }) => {
    const file = join(nodes.folder, 'go');
    const { client, first } = await begun(b, file, { note: 'x'.repeat(300_000) });
    await until(async () => (await log.after(client.sessionId!, first.id!))?.unanswered.length === 1, 'the open call');
    const [owed] = (await log.after(client.sessionId!, first.id!))!.unanswered;
    assert.ok(owed!.request!.length < 1_000, owed!.request);
    await die(b);
    const rest = await at(a, client).listen(first.id!);
    writeFileSync(file, '');
    const [answer, ...more] = await messages(rest);
    assert.deepEqual([answer.id, answer.result?.content[0].text, more], [7, 'waited', []]);
  }));

test('check:C9 check:H7 fault:F30 a call whose node died with the one that had passed it on is UNKNOWN, under its id', () =>
  stage(async ({ nodes, log, a, b }) => {
    // Two of four live: that is enough to end the leases of the others.
    const c = await nodes.node('c', {});
    await nodes.node('d', {});
    await callable(c, 'counter');
    const { client, stream, first } = await begun(b, join(nodes.folder, 'never'));
    await until(async () => (await log.after(client.sessionId!, first.id!))?.unanswered.length === 1, 'the open call');
    await Promise.all([die(a), die(b)]);
    assert.equal(await stream.next(), null);
    for (let time = 0; time < 2; time++) {
      const [answer, ...more] = await messages(await at(c, client).listen(first.id!));
      assert.equal(answer.id, 7);
      assert.equal(wordOf(answer), 'UNKNOWN');
      assert.deepEqual(more, []);
    }
  }));

test('check:C9 fault:F30 an answer from before its node’s death is replayed by another one, once and in order', () =>
  stage(async ({ nodes, log, a, b }) => {
    const file = join(nodes.folder, 'go');
    const { client, stream, first } = await begun(b, file);
    stream.drop();
    writeFileSync(file, '');
    await until(async () => {
      const left = await log.after(client.sessionId!, first.id!);
      return left?.events.length === 2 && left.unanswered.length === 0;
    }, 'the answer to be written down');
    await die(b);
    const rest = await at(a, client).listen(first.id!);
    const progress = await said(rest);
    assert.equal(JSON.parse(progress.data).params.progress, 2);
    const answer = await said(rest);
    assert.equal(JSON.parse(answer.data).result.content[0].text, 'waited');
    assert.equal(JSON.parse(answer.data).id, 7);
    assert.equal(await rest.next(), null);
    assert.deepEqual(await (await at(a, client).listen(progress.id!)).rest(), [answer]);
    assert.equal((await at(a, client).listen(answer.id!)).status, 400);
  }));

test("check:C9 S0.18 a session's own stream continues at another node when its node has died, and again at a third", () =>
  stage(async ({ nodes, log, a, b }) => {
    const c = await nodes.node('c', { counter: counterServer() });
    const client = await WireClient.open(b.serverUrl('counter'));
    const stream = await client.listen();
    await client.callText('log', { data: 1 });
    const first = await said(stream);
    stream.drop();
    await client.callText('log', { data: 2 });
    await client.callText('log', { data: 3 });
    await until(async () => (await kept(log, client, first)) === 2, 'what was said to be written down');
    await die(b);
    const second = await at(a, client).listen(first.id!);
    const heard = [await said(second), await said(second)];
    assert.deepEqual(heard.map(dataOf), [2, 3]);
    // Later messages arrive on this stream, whichever node is called.
    await at(c, client).callText('log', { data: 4 });
    const fourth = await said(second);
    assert.equal(dataOf(fourth), 4);
    second.drop();
    await at(a, client).callText('log', { data: 5 });
    // With an event id of the dead node, the node that continues the stream and another node replay all later events.
    for (const node of [a, c]) {
      const again = await at(node, client).listen(heard[0]!.id!);
      const events = [await said(again), await said(again), await said(again)];
      assert.deepEqual(events.map(dataOf), [3, 4, 5]);
      assert.deepEqual(events.slice(0, 2), [heard[1], fourth]);
      again.drop();
    }
    await until(async () => (await kept(log, client, fourth)) === 1, 'the rest to be written down');
    await die(a);
    const third = await at(c, client).listen(heard[0]!.id!);
    for (const data of [3, 4, 5]) assert.equal(dataOf(await said(third)), data);
    const stranger = await WireClient.open(c.serverUrl('counter'));
    const own = await stranger.listen(fourth.id!);
    assert.equal(own.status, 400);
    third.drop();
  }));

test('check:C9 check:H5 an event that was too large to be kept is reported as missing at its place', () =>
  stage(async ({ nodes, log, a, b }) => {
    const file = join(nodes.folder, 'go');
    const client = await WireClient.open(b.serverUrl('counter'));
    const own = await client.listen();
    await client.callText('log', { data: 1 });
    const seen = await said(own);
    own.drop();
    await client.callText('log', { data: 'x'.repeat(600_000) });
    await until(async () => (await kept(log, client, seen)) === 1, 'that it was said to be written down');
    await client.callText('log', { data: 3 });
    await until(async () => (await kept(log, client, seen)) === 2, 'what followed to be written down');
    const { stream, first } = await begun(b, file, { bytes: 600_000 }, client);
    stream.drop();
    writeFileSync(file, '');
    await until(async () => (await kept(log, client, first)) === 2, 'the answer to be written down');
    await die(b);
    const [progress, answer, ...more] = await messages(await at(a, client).listen(first.id!));
    assert.equal(progress.params.progress, 2);
    assert.equal(wordOf(answer), 'UNKNOWN');
    assert.equal(answer.id, 7);
    assert.match(answer.error.message, /too large/);
    assert.deepEqual(more, []);
    const rest = await at(a, client).listen(seen.id!);
    const gap = await said(rest);
    assert.equal(gap.id, null);
    assert.equal(JSON.parse(gap.data).params.logger, 'trunkline');
    assert.match(dataOf(gap), /lost with the node/);
    assert.equal(dataOf(await said(rest)), 3);
    rest.drop();
  }));

test("check:H7 fault:F33 a session's own stream continues elsewhere while its node still drains", () =>
  stage(async ({ nodes, a, b }) => {
    // A message during a call would be taken for a message of that call.
    const { client: caller, stream, first } = await begun(b, join(nodes.folder, 'go'));
    const client = await WireClient.open(b.serverUrl('counter'));
    const own = await client.listen();
    await client.callText('log', { data: 1 });
    const seen = await said(own);
    b.kill('SIGTERM');
    for (let event: Event | null = seen; event !== null; ) event = await own.next();
    const there = await at(a, client).listen(seen.id!);
    await at(a, client).callText('log', { data: 2 });
    assert.equal(dataOf(await said(there)), 2);
    // The call continues at its node, and the other node delivers the rest of its messages.
    stream.drop();
    const rest = await at(a, caller).listen(first.id!);
    writeFileSync(join(nodes.folder, 'go'), '');
    const [progress, answer] = await messages(rest);
    assert.equal(progress.params.progress, 2);
    assert.equal(answer.result.content[0].text, 'waited');
    assert.equal(await b.exited, 0);
    there.drop();
  }));

const RESOURCE = { uri: 'counter://value' };

/** Counts the updates on a stream as they arrive. */
function updates(stream: EventReader): { count: number } {
  const counted = { count: 0 };
  const read = async (): Promise<void> => {
    for (let message = await stream.message(); message !== null; message = await stream.message()) {
      if (message.method !== 'notifications/resources/updated') continue;
      assert.equal(message.params.uri, RESOURCE.uri);
      counted.count++;
    }
  };
  void read().catch(() => {});
  return counted;
}

for (const isolation of ['session', 'shared']) {
  test(`check:C9 S0.18 fault:F30 a subscription at a node that died continues at another (${isolation})`, () =>
    onCluster(
      () => ClusterProcesses.start(),
      async (nodes) => {
        const a = await nodes.node('a', { counter: counterServer({ isolation }) });
        const b = await nodes.node('b', {});
        await callable(b, 'counter');
        const client = await WireClient.open(b.serverUrl('counter'));
        const there = at(a, client);
        const stream = await there.listen();
        const heard = updates(stream);
        await client.result('resources/subscribe', RESOURCE);
        await until(async () => (await there.callText('touch')) === 'true' && heard.count > 0, 'an update');
        const before = heard.count;
        await die(b);
        // One update without a change: the client may have missed one.
        await until(() => heard.count > before, 'to be told that it may be another');
        const reported = heard.count;
        assert.equal(await there.callText('touch'), 'true');
        await until(() => heard.count > reported, 'an update by way of the node that is left');
        await there.result('resources/unsubscribe', RESOURCE);
        await until(async () => (await there.callText('touch')) === 'false', 'the server to be told');
        stream.drop();
      },
    ));
}

for (const isolation of ['session', 'shared']) {
  test(`check:C9 S0.18 fault:F30 a remote client’s subscription at a dead node is renewed at the next instance (${isolation})`, () =>
    onCluster(
      () => ClusterProcesses.start(),
      async (nodes) => {
        const a = await nodes.node('a', {});
        const b = await nodes.node('b', { counter: counterServer({ isolation }) });
        await callable(a, 'counter');
        const client = await WireClient.open(a.serverUrl('counter'));
        const stream = await client.listen();
        const heard = updates(stream);
        await client.result('resources/subscribe', RESOURCE);
        assert.equal(await client.callText('touch'), 'true');
        await until(() => heard.count === 1, 'an update');
        await die(b);
        await nodes.node('c', { counter: counterServer({ isolation }) });
        // One update without a change: the client may have missed one, and the new process has no subscription by itself.
        await until(() => heard.count > 1, 'to be told that it may be another');
        const reported = heard.count;
        assert.equal(await client.callText('touch'), 'true');
        await until(() => heard.count > reported, 'an update of the process that is there now');
        stream.drop();
      },
    ));
}

test('check:C9 S0.18 a subscription at the process of a dead node is made anew where its client listens next', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const servers = { counter: counterServer() };
      const [a, b] = [await nodes.node('a', servers), await nodes.node('b', servers)];
      const client = await WireClient.open(b.serverUrl('counter'));
      const stream = await client.listen();
      const heard = updates(stream);
      await client.result('resources/subscribe', RESOURCE);
      await until(async () => (await client.callText('touch')) === 'true' && heard.count > 0, 'an update');
      await die(b);
      const there = await at(a, client).listen();
      const again = updates(there);
      await until(() => again.count > 0, 'to be told that it may be another');
      // The new process has the subscription.
      await until(async () => (await at(a, client).callText('touch')) === 'true', 'it to be subscribed to');
      const reported = again.count;
      await at(a, client).callText('touch');
      await until(() => again.count > reported, 'an update');
      there.drop();
    },
  ));

test('check:C9 fault:F30 fault:F33 requests that wait for clients of 2026-07-28 end with their node: answered by one that drains, otherwise UNKNOWN', () =>
  stage(async ({ a, b, nodes }) => {
    const at = (node: NodeProcess): WireClient =>
      new WireClient(node.serverUrl('counter'), 'stateless', { capabilities: { roots: {} } });
    const waits = async (node: NodeProcess): Promise<Json> => {
      const result = await at(node).result('tools/call', { name: 'ask', arguments: {} });
      assert.equal(result.resultType, 'input_required', JSON.stringify(result));
      const inputResponses = { [Object.keys(result.inputRequests)[0]!]: { roots: [{ uri: 'file:///a' }] } };
      return { name: 'ask', arguments: {}, requestState: result.requestState, inputResponses };
    };
    const lost = await waits(b);
    const dying = await at(b).listening({ toolsListChanged: true });
    await die(b);
    // A stream ends at once.
    while ((await dying.message()) !== null);
    const c = await nodes.node('c', {});
    await callable(c, 'counter');
    const kept = await waits(c);
    const leaving = await at(c).listening({ toolsListChanged: true });
    c.kill('SIGTERM');
    let last = await leaving.message();
    while (last?.method !== undefined) last = await leaving.message();
    assert.equal(last?.result?.resultType, 'complete', JSON.stringify(last));
    assert.equal(await leaving.message(), null);
    const { content } = await at(a).result('tools/call', kept);
    assert.equal(content[0].text, '1');
    assert.equal(await c.exited, 0);
    const { message } = await at(a).request('tools/call', lost);
    assert.equal(wordOf(message), 'UNKNOWN');
    (await at(a).listening({ toolsListChanged: true })).drop();
  }));

test('fault:F30 a node that is killed and starts again in its folder ends its former lease, and serves its sessions at once', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const before = await nodes.node('a', { counter: counterServer() });
      await callable(before, 'counter');
      const client = await WireClient.open(before.serverUrl('counter'));
      assert.equal(await client.callText('count'), '1');
      const { peer } = (await before.health())!.node;
      await die(before);
      const after = await nodes.node('a', { counter: counterServer() }, {}, { folder: before.gateway.folder });
      const began = performance.now();
      await until(() => after.gateway.stderr.includes(`"event":"lease_ended","node":"a","peer":"${peer}"`), 'its end');
      const again = await at(after, client).callText('count');
      assert.equal(again, '1', 'a new process counts anew');
      // Otherwise the lease is ended after 2.5 s, or expires after 16 s.
      assert.ok(performance.now() - began < 2_000, `${performance.now() - began} ms`);
    },
  ));

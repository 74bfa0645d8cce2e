import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { callable, onCluster, ownerOf, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import type { Event, EventReader, Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);
const ROOTS = { capabilities: { roots: {} } };
const stateless = (node: NodeProcess): WireClient => new WireClient(node.serverUrl('counter'), 'stateless', ROOTS);
const INITIALIZE = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'wire', version: '1' } };
const ASK = { name: 'ask', arguments: {} };

/** The same session by way of this node. */
function at(node: NodeProcess, { sessionId }: WireClient): WireClient {
  const client = new WireClient(node.serverUrl('counter'), 'stateful', ROOTS);
  client.sessionId = sessionId;
  return client;
}

/** Two nodes, the second without servers of its own. */
async function two(nodes: ClusterProcesses): Promise<[NodeProcess, NodeProcess]> {
  const a = await nodes.node('a', { counter: counterServer() });
  const b = await nodes.node('b', {});
  await callable(b, 'counter');
  return [a, b];
}

/** The parameters with which a client answers an input request. */
function answered(result: Json): Json {
  assert.equal(result.resultType, 'input_required', JSON.stringify(result));
  const [[key, question]] = Object.entries<Json>(result.inputRequests) as [[string, Json]];
  assert.equal(question.method, 'roots/list');
  const roots = [{ uri: 'file:///a' }, { uri: 'file:///b' }];
  return { ...ASK, requestState: result.requestState, inputResponses: { [key]: { roots } } };
}

/** The status that the node returns to a client that resumes after this event. */
async function comingBack(node: NodeProcess, client: WireClient, eventId: string): Promise<number> {
  return (await at(node, client).listen(eventId)).status;
}

/** The next event that has a message. */
async function said(stream: EventReader): Promise<Event> {
  for (;;) {
    const event = await stream.next();
    assert.ok(event !== null, 'the stream has ended');
    if (event.data !== '') return event;
  }
}

test('check:C9 nodes whose tables are full refuse no session of another node, and the limit counts in the cluster', () =>
  cluster(async (nodes) => {
    const more = { sessions: { max: 20, maxPerPrincipal: 20 } };
    const shared = { counter: counterServer({ isolation: 'shared' }) };
    const [a, b] = [await nodes.node('a', shared, more), await nodes.node('b', shared, more)];
    await callable(a, 'counter');
    const known = async (node: NodeProcess) =>
      (await node.control<{ nodes: { state: string }[] }>('/api/v1/nodes')).nodes.length;
    await until(async () => (await known(a)) === 2 && (await known(b)) === 2, 'the nodes to know each other');
    const open = async (node: NodeProcess) =>
      Promise.all(Array.from({ length: 20 }, () => WireClient.open(node.serverUrl('counter'))));
    const [ofA, ofB] = [await open(a), await open(b)];
    for (const [sessions, there] of [
      [ofA, b],
      [ofB, a],
      [ofA, a],
    ] as const) {
      const answers = await Promise.all(sessions.map((session) => at(there, session).request('tools/list')));
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    }
    const sessions = async () => (await a.control<{ sessions: unknown[] }>('/api/v1/sessions')).sessions.length;
    await until(async () => (await sessions()) === 40, 'the sessions of both to be known');
    for (const node of [a, b]) {
      const refused = await new WireClient(node.serverUrl('counter')).request('initialize', INITIALIZE);
      assert.equal(refused.status, 429);
    }
  }));

test('check:C9 a call that waits for a stateless client continues when it returns to another node, once', () =>
  cluster(async (nodes) => {
    const [a, b] = await two(nodes);
    // By way of each of them, and back to the other.
    for (const [first, second] of [
      [a, b],
      [b, a],
    ] as const) {
      const retry = answered(await stateless(first).result('tools/call', ASK));
      const elsewhere = { ...retry, arguments: { n: 1 } };
      const refused = await stateless(second).request('tools/call', elsewhere);
      assert.equal(refused.message.error.code, -32602);
      const { content } = await stateless(second).result('tools/call', retry);
      assert.equal(content[0].text, '2');
      for (const node of [first, second]) {
        const again = await stateless(node).request('tools/call', retry);
        assert.equal(again.message.error.code, -32602);
      }
    }
  }));

test('check:C9 a call that waited at a node that died is UNKNOWN, and does not run again', () =>
  cluster(async (nodes) => {
    const [a, b] = await two(nodes);
    const retry = answered(await stateless(b).result('tools/call', ASK));
    b.kill('SIGKILL');
    await b.exited;
    const { message } = await stateless(a).request('tools/call', retry);
    assert.equal(wordOf(message), 'UNKNOWN');
  }));

test('check:C9 a client whose connection broke during a call gets the rest at another node', () =>
  cluster(async (nodes) => {
    const [a, b] = await two(nodes);
    for (const [first, second] of [
      [a, b],
      [b, a],
    ] as const) {
      const client = await WireClient.open(first.serverUrl('counter'), ROOTS);
      const file = join(nodes.folder, `go-${first.name}`);
      const params = { name: 'wait', arguments: { file }, _meta: { progressToken: 'p' } };
      const calling = (await client.post({ jsonrpc: '2.0', id: 7, method: 'tools/call', params })) as EventReader;
      const begun = await said(calling);
      assert.equal(JSON.parse(begun.data).params.progress, 1);
      calling.drop();
      const rest = await at(second, client).listen(begun.id!);
      assert.equal(existsSync(file), false);
      writeFileSync(file, '');
      assert.equal((await rest.message()).params.progress, 2);
      const answer = await said(rest);
      assert.equal(JSON.parse(answer.data).result.content[0].text, 'waited');
      assert.deepEqual(await rest.rest(), []);
      // After the end of the call, from the log.
      const again = await at(second, client).listen(begun.id!);
      assert.equal((await again.message()).params.progress, 2);
      assert.deepEqual(await again.next(), answer);
      assert.equal(await again.next(), null);
      assert.equal(await comingBack(second, client, answer.id!), 400);
    }
  }));

test('check:C9 messages that a node had sent before its restart are replayed by way of another node', () =>
  cluster(async (nodes) => {
    const [a, b] = await two(nodes);
    const client = await WireClient.open(a.serverUrl('counter'));
    const file = join(nodes.folder, 'go');
    writeFileSync(file, '');
    const params = { name: 'wait', arguments: { file }, _meta: { progressToken: 'p' } };
    const calling = (await client.post({ jsonrpc: '2.0', id: 7, method: 'tools/call', params })) as EventReader;
    const [begun, ...rest] = (await calling.rest()).filter(({ data }) => data !== '');
    assert.equal(rest.length, 2);
    a.kill('SIGTERM');
    await a.exited;
    const again = await nodes.node('a', { counter: counterServer() }, {}, { folder: a.gateway.folder });
    await until(async () => {
      const { nodes: known } = await b.control<{ nodes: { state: string }[] }>('/api/v1/nodes');
      return known.length === 2 && known.every(({ state }) => state === 'ready');
    }, `${again.name} to be back`);
    const replayed = await at(b, client).listen(begun!.id!);
    assert.deepEqual(await replayed.rest(), rest);
  }));

test("check:C9 a session's own stream continues at another node after the last event the client has seen", () =>
  cluster(async (nodes) => {
    const [a, b] = await two(nodes);
    const client = await WireClient.open(a.serverUrl('counter'));
    const here = await client.listen();
    await client.callText('say');
    const first = await said(here);
    here.drop();
    await client.callText('say');
    const there = await at(b, client).listen(first.id!);
    const second = await said(there);
    assert.notEqual(second.id, first.id);
    // Later messages arrive on this stream too, whichever node receives the call.
    await at(b, client).callText('say');
    const third = await said(there);
    await client.callText('say');
    const fourth = await said(there);
    assert.equal(new Set([first, second, third, fourth].map(({ id }) => id)).size, 4);
    // No other session receives them.
    const stranger = await WireClient.open(b.serverUrl('counter'));
    assert.equal(await comingBack(b, stranger, first.id!), 400);
    there.drop();
    await client.callText('say');
    const back = await client.listen(third.id!);
    assert.equal((await said(back)).id, fourth.id);
    await said(back);
    back.drop();
  }));

/** The messages of a stream, added as they arrive. */
function heard(stream: EventReader): Json[] {
  const messages: Json[] = [];
  const read = async (): Promise<void> => {
    for (let message = await stream.message(); message !== null; message = await stream.message())
      messages.push(message);
  };
  void read().catch(() => {});
  return messages;
}

const updates = (messages: readonly Json[]): number =>
  messages.filter(({ method }) => method === 'notifications/resources/updated').length;

test('check:C9 messages of servers at a node that joins later reach a stream that was open before', () =>
  cluster(async (nodes) => {
    const servers = { counter: counterServer() };
    const a = await nodes.node('a', servers);
    const client = await WireClient.open(a.serverUrl('counter'));
    const stream = await client.listen();
    const messages = heard(stream);
    const b = await nodes.node('b', servers);
    await callable(b, 'counter');
    const { pid } = JSON.parse(await at(b, client).callText('who'));
    assert.equal(await ownerOf([a, b], pid), b);
    await at(b, client).callText('log');
    await until(() => messages.some(({ params }) => params?.data === 'logged'), 'the message on the stream');
    stream.drop();
  }));

const RESOURCE = { uri: 'counter://value' };

for (const isolation of ['session', 'shared']) {
  test(`check:C9 a subscription made through one node reaches the session’s stream at another (${isolation})`, () =>
    cluster(async (nodes) => {
      const a = await nodes.node('a', { counter: counterServer({ isolation }) });
      const b = await nodes.node('b', {});
      await callable(b, 'counter');
      for (const [first, second] of [
        [a, b],
        [b, a],
      ] as const) {
        const client = await WireClient.open(first.serverUrl('counter'));
        const there = at(second, client);
        const stream = await there.listen();
        const messages = heard(stream);
        await client.result('resources/subscribe', RESOURCE);
        await until(async () => {
          await there.callText('touch');
          return updates(messages) > 0;
        }, `an update on the stream at ${second.name}`);
        await client.callText('touch');
        const before = updates(messages);
        await until(async () => {
          await client.callText('touch');
          return updates(messages) > before;
        }, 'another one');
        // An unsubscribe through the other node ends the subscription.
        await there.result('resources/unsubscribe', RESOURCE);
        await until(async () => (await client.callText('touch')) === 'false', 'the server to receive the unsubscribe');
        stream.drop();
      }
    }));
}

test('check:C9 a client that unsubscribes at one node does not affect others at another', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', { counter: counterServer({ isolation: 'shared' }) });
    const b = await nodes.node('b', {});
    const c = await nodes.node('c', {});
    for (const node of [b, c]) await callable(node, 'counter');
    const clients = await Promise.all([a, b, c].map((node) => WireClient.open(node.serverUrl('counter'))));
    const streams = await Promise.all(clients.map((client) => client.listen()));
    const messages = streams.map(heard);
    for (const client of clients) await client.result('resources/subscribe', RESOURCE);
    await until(async () => {
      await clients[0]!.callText('touch');
      return messages.every((those) => updates(those) > 0);
    }, 'all of them to be notified');
    for (const left of [2, 1, 0]) {
      // Each client unsubscribes through another node than the one where it subscribed.
      await at([b, c, a][left]!, clients[left]!).result('resources/unsubscribe', RESOURCE);
      const before = messages.map(updates);
      if (left > 0) {
        await until(async () => {
          await clients[0]!.callText('touch');
          return messages.slice(0, left).every((those, i) => updates(those) > before[i]!);
        }, `${left} of them to be notified still`);
      }
    }
    await until(async () => (await clients[0]!.callText('touch')) === 'false', 'the server to receive the unsubscribe');
    for (const stream of streams) stream.drop();
  }));

test('check:C9 a log level set at one node applies at another', () =>
  cluster(async (nodes) => {
    const [a, b] = await two(nodes);
    const client = await WireClient.open(a.serverUrl('counter'));
    const there = at(b, client);
    const stream = await there.listen();
    const messages = heard(stream);
    const spoken = (): number => messages.filter(({ method }) => method === 'notifications/message').length;
    await client.result('resources/subscribe', RESOURCE);
    /** Whether a log message of the server arrives before its next update. */
    const speaks = async (by: WireClient): Promise<boolean> => {
      const [words, touches] = [spoken(), updates(messages)];
      await by.callText('log');
      await by.callText('touch');
      await until(() => updates(messages) > touches, 'the next update');
      return spoken() > words;
    };
    await until(() => speaks(there), 'a message');
    await client.result('logging/setLevel', { level: 'emergency' });
    await until(async () => !(await speaks(there)), 'silence');
    await there.result('logging/setLevel', { level: 'debug' });
    await until(() => speaks(client), 'a message again');
    stream.drop();
  }));

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type CountingOptions, CountingSessions } from '../fixtures/http/counting-sessions.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, type NodeProcess, until } from '../support/cluster-processes.ts';
import type { EventReader, Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);

async function server(t: TestContext, options: CountingOptions = {}): Promise<CountingSessions> {
  const counting = await CountingSessions.start(options);
  t.after(() => counting.stop());
  return counting;
}

/** Nodes that all have the server. */
async function three(
  nodes: ClusterProcesses,
  { url }: CountingSessions,
  more: object = {},
  names = ['a', 'b', 'c'],
): Promise<NodeProcess[]> {
  const all: NodeProcess[] = [];
  for (const name of names) all.push(await nodes.node(name, { web: { type: 'http', url, ...more } }));
  for (const node of all) await callable(node, 'web');
  return all;
}

/** The same session by way of this node. */
function at(node: NodeProcess, { sessionId }: WireClient): WireClient {
  const client = new WireClient(node.serverUrl('web'));
  client.sessionId = sessionId;
  return client;
}

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

const logged = (messages: readonly Json[]): Json[] =>
  messages.filter(({ method }) => method === 'notifications/message').map(({ params }) => params);
/** The log messages of the server. */
const spoken = (messages: readonly Json[]): string[] =>
  logged(messages)
    .filter(({ logger }) => logger !== 'trunkline')
    .map(({ data }) => data);
/** How often the client was notified that state is lost. */
const losses = (messages: readonly Json[]): number =>
  logged(messages).filter(({ data }) => /is lost/.test(data)).length;

test('S0.18 check:C9 each request of a session goes to another node, and the HTTP server sees one session, initialised once', (t) =>
  cluster(async (nodes) => {
    const web = await server(t);
    const all = await three(nodes, web);
    // Each node has listed it, over a session of its own.
    const listed = web.initializes;
    const client = await WireClient.open(all[0]!.serverUrl('web'));
    const counts: string[] = [];
    for (let i = 0; i < 9; i++) counts.push(await at(all[i % 3]!, client).callText('count'));
    assert.deepEqual(counts, ['1', '2', '3', '4', '5', '6', '7', '8', '9']);
    assert.equal(web.used.length, 1);
    assert.ok(web.initializes <= listed + 1, `${web.initializes} after ${listed}`);
    const [session] = web.used;
    assert.equal(new Set(session!.requests).size, session!.requests.length, 'an id of a request came twice');
  }));

test('fault:F30 check:C6 check:C9 S0.19 kill -9 of the node that a session used: another continues its upstream session, and its state', (t) =>
  cluster(async (nodes) => {
    const web = await server(t);
    const [a, b] = (await three(nodes, web)) as [NodeProcess, NodeProcess];
    const client = await WireClient.open(a.serverUrl('web'));
    assert.equal(await client.callText('count'), '1');
    assert.equal(await client.callText('count'), '2');
    const before = await client.callText('who');
    const { initializes } = web;
    a.kill('SIGKILL');
    await a.exited;
    const killedAt = performance.now();
    const there = at(b, client);
    assert.equal(await there.callText('count'), '3');
    console.log(`# session usable after ${Math.round(performance.now() - killedAt)} ms`);
    assert.equal(await there.callText('who'), before);
    assert.equal(web.initializes, initializes);
    assert.equal(web.sessions.get(before)!.deleted, 0);
  }));

test('S0.20 check:C7 fault:F22 concurrent first calls, and calls after the server forgot its sessions, at all nodes: one session for all', (t) =>
  cluster(async (nodes) => {
    const web = await server(t, { initializeMs: 100 });
    const all = await three(nodes, web);
    const client = await WireClient.open(all[0]!.serverUrl('web'));
    const together = async (): Promise<number[]> => {
      const calls = Array.from({ length: 12 }, (_, i) => at(all[i % 3]!, client).callText('count'));
      return (await Promise.all(calls)).map(Number).sort((a, b) => a - b);
    };
    const twelve = Array.from({ length: 12 }, (_, i) => i + 1);
    assert.deepEqual(await together(), twelve);
    assert.equal(web.used.length, 1);
    const stream = await at(all[1]!, client).listen();
    const said = heard(stream);
    web.forgetSessions();
    assert.deepEqual(await together(), twelve);
    assert.equal(web.used.length, 2);
    await until(() => losses(said) > 0, 'the client to be notified');
    assert.equal(await at(all[2]!, client).callText('count'), '13');
    assert.equal(losses(said), 1);
    stream.drop();
  }));

test('check:C9 a session that ends at any node is ended at its HTTP server, once, also when the node that used it has died', (t) =>
  cluster(async (nodes) => {
    const web = await server(t);
    const [a, b, c] = (await three(nodes, web)) as [NodeProcess, NodeProcess, NodeProcess];
    const end = async (node: NodeProcess, { sessionId }: WireClient): Promise<void> => {
      const ended = await fetch(node.serverUrl('web'), { method: 'DELETE', headers: { 'mcp-session-id': sessionId! } });
      assert.ok(ended.ok, String(ended.status));
    };
    const used = await WireClient.open(a.serverUrl('web'));
    for (const node of [a, b, c]) await at(node, used).callText('count');
    await end(c, used);
    await until(() => web.used[0]!.deleted > 0, 'it to be ended');
    const left = await WireClient.open(a.serverUrl('web'));
    await left.callText('count');
    a.kill('SIGKILL');
    await a.exited;
    await end(b, left);
    await until(() => web.used[1]!.deleted > 0, 'the session without a connection to be ended');
    assert.deepEqual(
      web.used.map(({ deleted }) => deleted),
      [1, 1],
    );
    assert.equal(web.unknown, 0);
  }));

test('check:C9 fault:F30 one node listens to a session of an HTTP server, at whichever node the client listens; another does when it drains or dies', (t) =>
  cluster(async (nodes) => {
    const web = await server(t, { replays: true });
    const [a] = (await three(nodes, web, {}, ['a'])) as [NodeProcess];
    const client = await WireClient.open(a.serverUrl('web'));
    await at(a, client).callText('count');
    const [session] = web.used;
    await until(() => session!.listening === 1, 'the first one to listen');
    const [b, c] = (await three(nodes, web, {}, ['b', 'c'])) as [NodeProcess, NodeProcess];
    for (const node of [b, c]) await at(node, client).callText('count');
    const stranger = await WireClient.open(c.serverUrl('web'));
    await stranger.callText('count');
    const there = await at(c, client).listen();
    const said = heard(there);
    const strange = heard(await stranger.listen());
    await until(() => session!.listening === 1, 'a node to listen');
    const words: string[] = [];
    const say = async (node: NodeProcess, text: string): Promise<void> => {
      words.push(text);
      await at(node, client).call('say', { text });
      await until(() => spoken(said).includes(text), text);
    };
    await say(b, 'one');
    await say(a, 'two');
    // The listening node drains: the next one receives the messages that are sent meanwhile.
    const listened = session!.listened;
    a.kill('SIGTERM');
    await say(b, 'three');
    await say(b, 'four');
    await a.exited;
    await until(() => session!.listening === 1 && session!.listened > listened, 'another one to listen');
    await say(c, 'five');
    b.kill('SIGKILL');
    await b.exited;
    await until(() => session!.listening === 1, 'the last one to listen');
    await say(c, 'six');
    assert.deepEqual(spoken(said), words);
    assert.deepEqual(spoken(strange), []);
    assert.equal(session!.id, web.used[0]!.id);
    there.drop();
  }));

test('check:C9 a resource that clients at several nodes watch in one session of an HTTP server is released by the last of them', (t) =>
  cluster(async (nodes) => {
    const web = await server(t);
    const all = (await three(nodes, web, { isolation: 'shared' })).slice(0, 2);
    const clients = await Promise.all(all.map((node) => WireClient.open(node.serverUrl('web'))));
    const streams = await Promise.all(clients.map((client) => client.listen()));
    const messages = streams.map(heard);
    const updates = (i: number): number =>
      messages[i]!.filter(({ method }) => method === 'notifications/resources/updated').length;
    const resource = { uri: 'memory://one' };
    for (const client of clients) await client.result('resources/subscribe', resource);
    const touched = async (i: number): Promise<void> => {
      const before = updates(i);
      await until(async () => {
        await clients[i]!.result('tools/call', { name: 'touch', arguments: resource });
        return updates(i) > before;
      }, `an update at ${all[i]!.name}`);
    };
    await touched(0);
    await touched(1);
    const [session] = [...web.sessions.values()].filter(({ subscribed }) => subscribed.length > 0);
    await clients[0]!.result('resources/unsubscribe', resource);
    await touched(1);
    assert.deepEqual(session!.givenUp, []);
    await clients[1]!.result('resources/unsubscribe', resource);
    assert.deepEqual(session!.givenUp, [resource.uri]);
    for (const stream of streams) stream.drop();
  }));

test('check:C9 fault:F31 a node frozen while another released a resource that both watch subscribes to it again', (t) =>
  cluster(async (nodes) => {
    const web = await server(t);
    const [a, b] = (await three(nodes, web, { isolation: 'shared' })) as [NodeProcess, NodeProcess];
    const [here, there] = await Promise.all([a, b].map((node) => WireClient.open(node.serverUrl('web'))));
    const stream = await there!.listen();
    const messages = heard(stream);
    const resource = { uri: 'memory://one' };
    for (const client of [here!, there!]) await client.result('resources/subscribe', resource);
    const [session] = [...web.sessions.values()].filter(({ subscribed }) => subscribed.length > 0);
    const count = session!.subscribed.length;
    b.kill('SIGSTOP');
    await until(async () => {
      const { nodes: known } = await a.control<{ nodes: unknown[] }>('/api/v1/nodes');
      return known.length === 2;
    }, 'b to be taken for gone');
    await here!.result('resources/unsubscribe', resource);
    assert.deepEqual(session!.givenUp, [resource.uri]);
    b.kill('SIGCONT');
    await until(() => session!.subscribed.length > count, 'a new subscription');
    const before = messages.length;
    await until(async () => {
      await here!.result('tools/call', { name: 'touch', arguments: resource });
      return messages.slice(before).some(({ method }) => method === 'notifications/resources/updated');
    }, 'an update');
    stream.drop();
  }));

import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { callable, onCluster, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { PREVIOUS, unpackVersion } from '../support/other-version.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);
const before = unpackVersion(PREVIOUS);

/** A version that speaks no protocol that this tree knows. */
const stranger = unpackVersion(PREVIOUS, (_path, text) =>
  text
    .replace('const PROTOCOLS = [1, 2];', 'const PROTOCOLS = [99, 99];')
    .replace('pieces = [], protocol = 1)', 'pieces = [], protocol = 99)')
    .replace('protocol >= 1 && protocol <= 2', 'protocol === 99'),
);

async function readyNodes(node: NodeProcess): Promise<number> {
  const { nodes } = await node.control<{ nodes: { state: string }[] }>('/api/v1/nodes');
  return nodes.filter(({ state }) => state === 'ready').length;
}

/** The same session, at another node. */
function sameSession(client: WireClient, url: string): WireClient {
  const there = new WireClient(url, 'stateful', { capabilities: client.capabilities });
  there.sessionId = client.sessionId;
  there.answer = client.answer;
  return there;
}

/** Everything that a client of `here` does with a server that only `there` has. */
async function getAlong(nodes: ClusterProcesses, here: NodeProcess, there: NodeProcess, server: string): Promise<void> {
  await callable(here, server);
  const client = await WireClient.open(here.serverUrl(server), { capabilities: { roots: {} } });
  client.answer = () => ({ roots: [{ uri: 'file:///a' }] });
  await until(async () => (await client.toolNames()).includes('count'), `the tools of ${server} at ${here.name}`);
  assert.equal(await client.callText('count'), '1');
  assert.equal(await client.callText('ask'), '1');

  // Progress comes while the call runs.
  const file = join(nodes.folder, `go-${server}`);
  const waiting = await client.post({
    jsonrpc: '2.0',
    id: 'w',
    method: 'tools/call',
    params: { name: 'wait', arguments: { file }, _meta: { progressToken: 'p' } },
  });
  assert.equal((await waiting.message()).method, 'notifications/progress');
  writeFileSync(file, '');
  let last = await waiting.message();
  while (last.id !== 'w') last = await waiting.message();
  assert.equal(last.result.content[0].text, 'waited');

  // The session is one and the same at the other node, with its process, its stream and its cancellations.
  const other = sameSession(client, there.serverUrl(server));
  assert.equal(await other.callText('count'), '2');
  const held = join(nodes.folder, `held-${server}`);
  const holding = await client.post({
    jsonrpc: '2.0',
    id: 'h',
    method: 'tools/call',
    params: { name: 'hold', arguments: { file: held } },
  });
  await until(() => existsSync(held), 'the call to be held');
  const cancelled = await other.post({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: 'h' },
  });
  assert.equal(cancelled.status, 202);
  assert.equal((await holding.message())?.result, undefined);
  const stream = await client.listen();
  let said = '';
  const reading = (async () => {
    for (let message = await stream.message(); message !== null; message = await stream.message()) {
      said += JSON.stringify(message);
    }
  })().catch(() => {});
  await until(async () => {
    await other.callText('say');
    return said.includes('"data":"said"');
  }, 'what the server says, at the stream of the other node');
  stream.drop();
  await reading;

  const stateless = new WireClient(here.serverUrl(server), 'stateless');
  assert.match(await stateless.callText('count'), /^\d+$/);
  const ended = await fetch(there.serverUrl(server), {
    method: 'DELETE',
    headers: { 'mcp-session-id': client.sessionId! },
  });
  assert.ok(ended.ok, String(ended.status));
  await until(async () => (await client.request('ping')).status === 404, 'the session to have ended everywhere');
}

test('a node of the previous version and one of this one are a cluster: calls, input requests, streams and cancellations go both ways', () =>
  cluster(async (nodes) => {
    const old = await nodes.node('old', { older: counterServer() }, {}, { program: before });
    const present = await nodes.node('present', { newer: counterServer() });
    await getAlong(nodes, present, old, 'older');
    await getAlong(nodes, old, present, 'newer');
    for (const { stderr } of [old, present])
      assert.doesNotMatch(stderr, /node_not_understood|message_refused|unreadable/);
  }));

test('fault:F33 rolling upgrade: every node of the previous version is replaced while calls run, and none is lost', () =>
  cluster(async (nodes) => {
    const servers = { own: counterServer(), common: counterServer({ isolation: 'shared' }) };
    let members: NodeProcess[] = [];
    for (const name of ['a', 'b', 'c']) members.push(await nodes.node(name, servers, {}, { program: before }));
    for (const node of members) await callable(node, 'own', 'common');

    // A proxy that stops sending requests to a node before the node is stopped. Calls between nodes go on.
    const sent = new Map<NodeProcess, number>();
    let rotation = members;
    let turn = 0;
    let calls = 0;
    let over = false;
    const lost: string[] = [];
    const load = Array.from({ length: 6 }, async (_, at) => {
      const server = at % 2 === 0 ? 'own' : 'common';
      const opened = await WireClient.open(rotation[0]!.serverUrl(server));
      while (!over) {
        const node = rotation[turn++ % rotation.length]!;
        const client = sameSession(opened, node.serverUrl(server));
        sent.set(node, (sent.get(node) ?? 0) + 1);
        const answered = await client.request('tools/call', { name: 'count', arguments: {} }).catch((error) => error);
        sent.set(node, sent.get(node)! - 1);
        calls++;
        const word = answered instanceof Error ? String(answered) : wordOf(answered.message);
        if (word !== 'RESULT') lost.push(`${server} at ${node.name}: ${word} ${JSON.stringify(answered.message)}`);
        await new Promise((done) => setTimeout(done, 5));
      }
    });
    const more = async (count: number) => {
      const enough = calls + count;
      await until(() => calls >= enough || lost.length > 0, 'calls to go on');
    };
    await more(60);
    for (const old of members) {
      rotation = members.filter((node) => node !== old);
      await until(() => sent.get(old) === 0, `what was sent to ${old.name} to be answered`);
      old.kill('SIGTERM');
      assert.equal(await old.exited, 0);
      const next = await nodes.node(old.name, servers);
      members = members.map((node) => (node === old ? next : node));
      for (const node of members)
        await until(async () => (await readyNodes(node)) === 3, `${node.name} to know all three`);
      await callable(next, 'own', 'common');
      rotation = members;
      await more(60);
    }
    over = true;
    await Promise.all(load);
    assert.deepEqual(lost, []);
    // Both versions compare definitions in the same way: no node reported equal definitions as different.
    for (const { stderr } of nodes.nodes) assert.doesNotMatch(stderr, /definitions_conflict|node_not_understood/);
    console.log(`# ${calls} calls`);
  }));

test('two nodes without a common protocol report and ignore each other', () =>
  cluster(async (nodes) => {
    const present = await nodes.node('present', { mine: counterServer() });
    const other = await nodes.node('other', { its: counterServer() }, {}, { program: stranger });
    for (const node of [present, other]) {
      await until(() => node.stderr.includes('"event":"node_not_understood"'), `${node.name} to report it`);
    }
    assert.match(
      present.stderr,
      /"event":"node_not_understood","peer":"[0-9a-f]{16}","node":"other","version":"[^"]*","protocols":\[99,99\],"reason":"[^"]*99[^"]*"/,
    );
    assert.equal(await readyNodes(present), 1);
    assert.equal(await readyNodes(other), 1);
    for (const [node, server] of [
      [present, 'mine'],
      [other, 'its'],
    ] as const) {
      await callable(node, server);
      assert.deepEqual(await node.servers(), [server]);
      const client = await WireClient.open(node.serverUrl(server));
      assert.equal(await client.callText('count'), '1');
    }
  }));

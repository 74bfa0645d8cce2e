import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type CountingOptions, CountingSessions } from '../fixtures/http/counting-sessions.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, type NodeProcess } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);

async function server(t: TestContext, options: CountingOptions = {}): Promise<CountingSessions> {
  const counting = await CountingSessions.start(options);
  t.after(() => counting.stop());
  return counting;
}

/** Nodes that all have the server. */
async function three(nodes: ClusterProcesses, { url }: CountingSessions, more: object = {}): Promise<NodeProcess[]> {
  const all: NodeProcess[] = [];
  for (const name of ['a', 'b', 'c']) all.push(await nodes.node(name, { web: { type: 'http', url, ...more } }));
  for (const node of all) await callable(node, 'web');
  return all;
}

/** The same session by way of this node. */
function at(node: NodeProcess, { sessionId }: WireClient): WireClient {
  const client = new WireClient(node.serverUrl('web'));
  client.sessionId = sessionId;
  return client;
}

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

test('fault:F30 check:C6 check:C9 S0.19 kill -9 of the node that a session used: another goes on with its upstream session, and its state', (t) =>
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

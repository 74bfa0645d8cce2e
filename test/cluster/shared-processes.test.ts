import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { callable, onCluster, ownerOf, type Who, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import type { EventReader, Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

const SERVERS = { counter: counterServer({ isolation: 'shared' }) };
const KEPT = { cluster: { sharedProcesses: 'session' } };
const RESOURCE = { uri: 'counter://value' };
const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);

async function started(nodes: ClusterProcesses, ...names: string[]): Promise<NodeProcess[]> {
  const all: NodeProcess[] = [];
  for (const name of names) all.push(await nodes.node(name, SERVERS, KEPT));
  for (const node of all) {
    await callable(node, 'counter');
    await until(async () => (await ready(node)) === names.length, `${node.name} to know the others`);
  }
  // The others read the servers of a node that has just joined a moment later.
  for (const node of all) {
    const session = await WireClient.open(node.serverUrl('counter'));
    const { pid } = await who(session);
    for (const other of all) await until(async () => (await who(at(other, session))).pid === pid, 'the nodes to agree');
  }
  return all;
}

async function ready(node: NodeProcess): Promise<number> {
  const { nodes } = await node.control<{ nodes: { state: string }[] }>('/api/v1/nodes');
  return nodes.filter(({ state }) => state === 'ready').length;
}

/** The same session by way of this node. */
function at(node: NodeProcess, { sessionId }: WireClient): WireClient {
  const client = new WireClient(node.serverUrl('counter'), 'stateful');
  client.sessionId = sessionId;
  return client;
}

async function who(client: WireClient): Promise<Who> {
  return JSON.parse(await client.callText('who')) as Who;
}

/** The counts that the session gets, with its requests sent to each of the nodes in turn. */
async function counted(session: WireClient, nodes: readonly NodeProcess[], times: number): Promise<number[]> {
  const counts: number[] = [];
  for (let i = 0; i < times; i++) counts.push(Number(await at(nodes[i % nodes.length]!, session).callText('count')));
  return counts;
}

/** `times` numbers from this one on. */
const from = (first: number, times: number): number[] => Array.from({ length: times }, (_, i) => first + i);

function heard(stream: EventReader): Json[] {
  const messages: Json[] = [];
  const read = async (): Promise<void> => {
    for (let message = await stream.message(); message !== null; message = await stream.message())
      messages.push(message);
  };
  void read().catch(() => {});
  return messages;
}

test('check:C9 a session whose requests go to both nodes in turn uses one shared process; after its node dies, that of the other', () =>
  cluster(async (nodes) => {
    const [a, b] = (await started(nodes, 'a', 'b')) as [NodeProcess, NodeProcess];
    const ofA = await WireClient.open(a.serverUrl('counter'));
    const ofB = await WireClient.open(b.serverUrl('counter'));
    assert.deepEqual(await counted(ofA, [b, a], 8), from(1, 8));
    assert.deepEqual(await counted(ofB, [a, b], 4), from(1, 4));
    assert.equal(await ownerOf([a, b], (await who(at(b, ofA))).pid), a);
    assert.equal(await ownerOf([a, b], (await who(at(a, ofB))).pid), b);
    // Stateless clients have no session: the node that gets a request serves it.
    const single = new WireClient(b.serverUrl('counter'), 'stateless');
    assert.equal(await ownerOf([a, b], (await who(single)).pid), b);

    const messages = heard(await at(b, ofA).listen());
    a.kill('SIGKILL');
    await a.exited;
    await until(async () => {
      const { message } = await at(b, ofA).request('tools/call', { name: 'count', arguments: {} });
      return wordOf(message) === 'RESULT';
    }, 'the session to go on');
    assert.equal(await ownerOf([b], (await who(at(b, ofA))).pid), b);
    await until(() => messages.some(({ params }) => /what it kept/.test(params?.data)), 'the session to be notified');
    assert.equal(await at(b, ofB).callText('count'), '6', 'the other session is where it was');
  }));

test('fault:F28 NATS is away while clients use sessions of other nodes: each session returns to its process', () =>
  cluster(async (nodes) => {
    const all = (await started(nodes, 'a', 'b', 'c')) as [NodeProcess, NodeProcess, NodeProcess];
    const [a, b] = all;
    const sessions: WireClient[] = [];
    for (let i = 0; i < 8; i++) sessions.push(await WireClient.open(a.serverUrl('counter')));
    const { pid } = await who(sessions[0]!);
    for (const session of sessions) assert.equal((await who(at(b, session))).pid, pid);
    await nodes.nats.kill();
    await sleep(2_500);
    const set = sessions.map((session) => at(b, session).request('logging/setLevel', { level: 'error' }));
    await Promise.allSettled([...set, sleep(1_500)]);
    await nodes.nats.run();
    for (const node of all) await until(async () => (await ready(node)) === 3, `${node.name} to know the others`);
    await sleep(2_000);
    for (const session of sessions) {
      for (const node of all) assert.equal((await who(at(node, session))).pid, pid, `by way of ${node.name}`);
    }
  }));

test('fault:F33 nodes drain one after the other: a session finds one process at a time, and no call of it fails', () =>
  cluster(async (nodes) => {
    let all = await started(nodes, 'a', 'b', 'c');
    const session = await WireClient.open(all[0]!.serverUrl('counter'));
    assert.deepEqual(await counted(session, all, 6), from(1, 6));
    for (const name of ['a', 'b', 'c']) {
      const leaving = all.find((node) => node.name === name)!;
      const rest = all.filter((node) => node !== leaving);
      leaving.kill('SIGTERM');
      const counts: number[] = [];
      let left = false;
      void leaving.exited.then(() => {
        left = true;
      });
      while (!left) counts.push(...(await counted(session, rest, 2)));
      assert.equal(await leaving.exited, 0);
      // The session went on at the process of the leaving node, and then at another one.
      const moved = counts.findIndex((count, i) => i > 0 && count <= counts[i - 1]!);
      const after = moved < 0 ? [] : counts.slice(moved);
      assert.deepEqual(after, from(after[0] ?? 0, after.length), counts.join());
      const one = await who(at(rest[0]!, session));
      assert.equal((await who(at(rest[1]!, session))).pid, one.pid);
      // A node that joins takes no session from another.
      const again = await nodes.node(name, SERVERS, KEPT);
      all = [...rest, again];
      for (const node of all) {
        await callable(node, 'counter');
        await until(async () => (await ready(node)) === 3, `${node.name} to know the others`);
        // Until it has read what the others have, the node that joins knows its own process only.
        const same = async (): Promise<boolean> => (await who(at(node, session))).pid === one.pid;
        if (node === again) await until(same, 'the joined node to find the process');
        else assert.ok(await same(), `by way of ${node.name}`);
      }
    }
  }));

test('check:C9 subscriptions at the process of a session reach it by way of another node, and move with it', () =>
  cluster(async (nodes) => {
    const [a, b] = (await started(nodes, 'a', 'b')) as [NodeProcess, NodeProcess];
    const ofA = await WireClient.open(a.serverUrl('counter'));
    const ofB = await WireClient.open(b.serverUrl('counter'));
    const updates = (messages: Json[]): number =>
      messages.filter(({ method }) => method === 'notifications/resources/updated').length;
    // Both listen and subscribe at b; their processes are those of different nodes.
    const [toA, toB] = [heard(await at(b, ofA).listen()), heard(await ofB.listen())];
    for (const session of [ofB, ofA]) await at(b, session).result('resources/subscribe', RESOURCE);
    assert.equal(await at(b, ofA).callText('touch'), 'true');
    await until(() => updates(toA) === 1, 'an update from the process of a');
    assert.equal(await at(b, ofB).callText('touch'), 'true');
    await until(() => updates(toB) >= 1, 'an update from the process of b');
    a.kill('SIGKILL');
    await a.exited;
    await until(() => updates(toA) > 1, 'a notification that the resource may have changed');
    const before = updates(toA);
    await until(async () => {
      await at(b, ofA).request('tools/call', { name: 'touch', arguments: {} });
      return updates(toA) > before;
    }, 'an update from the process of b');
  }));

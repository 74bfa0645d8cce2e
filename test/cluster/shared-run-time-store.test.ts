import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, NodeProcess, until } from '../support/cluster-processes.ts';
import { freePort } from '../support/free-port.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);

async function knows(node: NodeProcess, server: string): Promise<boolean> {
  const { servers } = await node.control<{ servers: { name: string; state: string }[] }>('/api/v1/servers');
  return servers.some(({ name }) => name === server);
}

test('check:A2 adding, suspending and removing a server at one node take effect at every node, over restarts of nodes and database', () =>
  cluster(async (nodes) => {
    await using database = await PostgresServer.start();
    const store = { cluster: { store: database.url } };
    const a = await nodes.node('a', {}, store);
    const b = await nodes.node('b', {}, store);
    const operator = new RunTimeClient(a.gateway);
    const added = await operator.add('counter', counterServer());
    assert.equal(added.status, 201, added.text);
    await callable(b, 'counter');
    const client = await WireClient.open(b.mcpUrl);
    await until(async () => (await client.toolNames()).includes('counter__count'), 'its tools at the other node');
    assert.equal(await client.callText('counter__count'), '1');

    const state = async (node: NodeProcess) => (await node.control<{ state: string }>('/api/v1/servers/counter')).state;
    assert.equal((await new RunTimeClient(b.gateway).suspend('counter')).status, 200);
    for (const node of [a, b])
      await until(async () => (await state(node)) === 'suspended', 'it is suspended everywhere');

    // While the database is away, no change is acknowledged, the desired state holds, and the nodes stay ready.
    await database.kill();
    const refused = await operator.add('other', counterServer());
    assert.equal(refused.status, 503, refused.text);
    const unread = async () => (await a.health())?.degraded?.some((one) => one.includes('store of the cluster'));
    await until(async () => (await unread()) === true, 'the node to say that it cannot read its store');
    assert.equal(await a.ready(), true);
    assert.equal(await state(a), 'suspended');
    await database.run();
    await until(async () => (await a.health())?.status === 'ready', 'the node to read its store again');

    // A node that starts later finds the earlier decisions.
    b.kill('SIGKILL');
    await b.exited;
    assert.equal((await operator.resume('counter')).status, 200);
    const c = await nodes.node('c', {}, store);
    await callable(c, 'counter');
    assert.equal((await operator.remove('counter')).status, 200);
    for (const node of [a, c]) await until(async () => !(await knows(node, 'counter')), 'it is gone everywhere');
  }));

test('check:A2 without a database, NATS keeps the servers that a node adds and their suspension, over restarts of all nodes', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', {});
    const b = await nodes.node('b', {});
    const operator = new RunTimeClient(a.gateway);
    assert.equal((await operator.add('counter', counterServer())).status, 201);
    await callable(b, 'counter');
    const client = await WireClient.open(b.mcpUrl);
    await until(async () => (await client.toolNames()).includes('counter__count'), 'its tools at the other node');
    assert.equal(await client.callText('counter__count'), '1');

    // Of two changes to the same revision, one is refused with the code `revision_changed`.
    const { revision } = (await operator.server('counter')).desired;
    const again = (node: NodeProcess) =>
      new RunTimeClient(node.gateway).change('counter', counterServer(), `?revision=${revision}`);
    const replies = await Promise.all([again(a), again(b)]);
    assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 409], replies.map(({ text }) => text).join());
    assert.match(replies.find(({ status }) => status === 409)!.text, /revision_changed/);

    const state = async (node: NodeProcess) => (await node.control<{ state: string }>('/api/v1/servers/counter')).state;
    assert.equal((await new RunTimeClient(b.gateway).suspend('counter')).status, 200);
    for (const node of [a, b])
      await until(async () => (await state(node)) === 'suspended', 'it is suspended everywhere');

    // While NATS is away, no change is acknowledged, and earlier decisions hold.
    await nodes.nats.kill();
    await until(async () => {
      const refused = await operator.add('other', counterServer());
      assert.equal(refused.status, 503, refused.text);
      return refused.text.includes('JetStream');
    }, 'the change to be refused');
    assert.equal(await state(a), 'suspended');
    await nodes.nats.run();
    assert.equal(await knows(a, 'other'), false);

    // All nodes end; NATS loses its disk. A node restores the store from its copy.
    await until(async () => (await operator.add('later', counterServer())).status === 201, 'changes to be taken again');
    await until(() => knows(b, 'later'), 'the other node to have it too');
    const { folder } = b.gateway;
    for (const node of [a, b]) node.kill('SIGTERM');
    await Promise.all([a.exited, b.exited]);
    await nodes.nats.kill();
    nodes.nats.forget();
    await nodes.nats.run();
    const c = await nodes.node('c', {});
    assert.equal(await knows(c, 'later'), false);
    const d = await nodes.node('b', {}, {}, { folder });
    for (const name of ['counter', 'later']) {
      for (const node of [c, d]) await until(() => knows(node, name), 'what was decided to be there');
    }
    for (const node of [c, d]) await until(async () => (await state(node)) === 'suspended', 'and suspended');
    assert.equal((await new RunTimeClient(c.gateway).remove('counter')).status, 200);
    for (const node of [c, d]) await until(async () => !(await knows(node, 'counter')), 'it is gone everywhere');
  }));

test('check:G4 without a database, a definition blocked at one node is blocked at every node', () =>
  cluster(async (nodes) => {
    const mine = { mine: counterServer({ drift: 'hold' }) };
    const [a, b] = [await nodes.node('a', mine), await nodes.node('b', mine)];
    await callable(a, 'mine');
    const body = JSON.stringify({ definitions: [{ list: 'tools', key: 'count' }] });
    await a.gateway.control('/api/v1/servers/mine/drift/block', 'POST', body);
    const lists = async (node: NodeProcess) => (await (await WireClient.open(node.mcpUrl)).toolNames()).join();
    for (const node of [a, b]) {
      await until(async () => !(await lists(node)).includes('mine__count'), 'the tool to be gone');
    }
  }));

test('a node whose database is away reports it and ends, though it is connected to the bus', () =>
  cluster(async (nodes) => {
    const cluster = { store: `postgresql://trunkline@127.0.0.1:${await freePort()}/none` };
    const { nats } = nodes;
    await assert.rejects(NodeProcess.start('a', {}, { cluster }, { nats: nats.url }), (error: Error) => {
      assert.match(error.message, /no copy of it from before.*see that the database can be reached/s);
      assert.match(String(error.cause), /exited with 1/);
      return true;
    });
  }));

test('check:A2 a node starts from its copy of the store while the database is away, and follows the database when it is back', () =>
  cluster(async (nodes) => {
    await using database = await PostgresServer.start();
    const store = { cluster: { store: database.url } };
    const a = await nodes.node('a', {}, store);
    const b = await nodes.node('b', {}, store);
    const operator = new RunTimeClient(a.gateway);
    assert.equal((await operator.add('counter', counterServer())).status, 201);
    assert.equal((await operator.add('spent', counterServer())).status, 201);
    await callable(b, 'counter', 'spent');
    const kept = join(b.gateway.folder, 'data', 'store.copy');
    await until(() => readFileSync(kept, 'utf8').includes('"spent"'), 'the copy of what the node knows');
    b.kill('SIGKILL');
    await b.exited;
    await database.kill();

    const { folder } = b.gateway;
    a.kill('SIGKILL');
    await a.exited;
    const again = await nodes.node('b', {}, store, { folder });
    await callable(again, 'counter');
    const client = await WireClient.open(again.mcpUrl);
    await until(async () => (await client.toolNames()).includes('counter__count'), 'the tools of what was added');
    assert.equal(await client.callText('counter__count'), '1');
    assert.match(again.stderr, /"event":"store_not_reached".*starts with what it last knew/);
    const there = new RunTimeClient(again.gateway);
    assert.equal((await there.remove('spent')).status, 503);

    // A changed copy is rejected: without its pins a node would trust changed definitions.
    const copy = readFileSync(kept, 'utf8');
    again.kill('SIGKILL');
    await again.exited;
    writeFileSync(kept, copy.replace('"counter"', '"counted"'));
    await assert.rejects(nodes.node('b', {}, store, { folder }), /store\.copy is damaged/);
    writeFileSync(kept, copy);
    const back = await nodes.node('b', {}, store, { folder });
    await database.run();
    await until(async () => (await back.health())?.status === 'ready', 'the node to read its store again');
    assert.equal((await new RunTimeClient(back.gateway).remove('spent')).status, 200);
    await until(async () => !(await knows(back, 'spent')), 'the change to be in force');
  }));

test('check:A2 a server in the file of one node is not replaced from another one, and can be suspended from any', () =>
  cluster(async (nodes) => {
    await using database = await PostgresServer.start();
    const store = { cluster: { store: database.url } };
    const a = await nodes.node('a', {}, store);
    const b = await nodes.node('b', { counter: counterServer() }, store);
    await callable(a, 'counter');
    const operator = new RunTimeClient(a.gateway);
    const taken = await operator.add('counter', counterServer({ timeoutMs: 5_000 }));
    assert.equal(taken.status, 409, taken.text);
    assert.match(taken.text, /name_taken.*counter, .* is another server at b: take another name/);
    const removed = await operator.remove('counter');
    assert.equal(removed.status, 409, removed.text);
    assert.match(removed.text, /change it at b/);

    const suspended = await operator.suspend('counter');
    assert.equal(suspended.status, 200, suspended.text);
    assert.match(suspended.text, /"state":"suspended"/);
    const { state } = await b.control<{ state: string }>('/api/v1/servers/counter');
    assert.equal(state, 'suspended');
    const resumed = await operator.resume('counter');
    assert.equal(resumed.status, 200, resumed.text);
    await callable(a, 'counter');

    // Other nodes offer a removed server until they have followed, but its name is free at once.
    assert.equal((await operator.add('other', counterServer())).status, 201);
    await until(() => knows(b, 'other'), 'the other node to have it');
    assert.equal((await operator.remove('other')).status, 200);
    const again = await operator.add('other', counterServer({ timeoutMs: 5_000 }));
    assert.equal(again.status, 201, again.text);
  }));

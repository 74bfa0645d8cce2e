import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/model/clock.ts';
import { SERVERS } from '../../src/registry/stored-definitions.ts';
import { PostgresRunTimeStore } from '../../src/store/run-time-store/postgres/postgres-run-time-store.ts';
import { SECRET } from '../support/cluster-bench.ts';
import { alive, callable, onCluster, type Who } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, until } from '../support/cluster-processes.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { ProgramNode } from '../support/program-node.ts';
import { WireClient } from '../support/wire-client.ts';

/*
 * The Manager of the seed is a gateway here, `createGateway`, and a node when its configuration names a cluster.
 * Two programs on a real nats-server, each with one gateway.
 */

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);
const COUNTER = resolve(import.meta.dirname, '../fixtures/cluster/counter.mjs');
/** Ignores SIGTERM and `process.exit`. */
const STUBBORN = 'data:text/javascript,process.on("SIGTERM",()=>{});process.exit=()=>{};setInterval(()=>{},1e3)';

interface Programs extends AsyncDisposable {
  readonly a: ProgramNode;
  readonly b: ProgramNode;
  url(node: ProgramNode, server: string): string;
}

async function programs({ nats }: ClusterProcesses): Promise<Programs> {
  const started: ProgramNode[] = [];
  const urls = new Map<ProgramNode, string>();
  const dispose = async (): Promise<void> => {
    for (const program of started) await program[Symbol.asyncDispose]();
  };
  try {
    for (const node of ['a', 'b']) {
      const program = await ProgramNode.start({ config: { cluster: { nats: nats.url, node, secret: SECRET } } });
      started.push(program);
      urls.set(program, (await program.call('listen', { port: 0, controlPort: 0 })).mcpUrl);
    }
  } catch (error) {
    await dispose();
    throw error;
  }
  const [a, b] = started as [ProgramNode, ProgramNode];
  const url = (node: ProgramNode, server: string) => urls.get(node)!.replace(/\/mcp$/, `/servers/${server}/mcp`);
  return { a, b, url, [Symbol.asyncDispose]: dispose };
}

/** A client once the server can be called there. */
async function opened(url: string): Promise<WireClient> {
  const found: WireClient[] = [];
  await until(async () => {
    const client = await WireClient.open(url).catch(() => null);
    const names = client?.sessionId == null ? [] : await client.toolNames().catch(() => []);
    if (client !== null && names.includes('who')) found.push(client);
    return found.length > 0;
  }, `the tools of ${url}`);
  return found[0]!;
}

const who = async (client: WireClient): Promise<Who> => JSON.parse(await client.callText('who'));

test('S0.11 a worker has one connection for each conversation, made by its first call, for any number of concurrent calls at both nodes', () =>
  cluster(async (nodes) => {
    await using both = await programs(nodes);
    const { a, b } = both;
    await a.call('startServer', 'counter', counterServer({ start: 'lazy', isolation: 'session' }));
    assert.deepEqual((await a.call('server', 'counter'))?.connections, [], 'nothing is started before a call');
    const first = await opened(both.url(a, 'counter'));
    const second = await opened(both.url(b, 'counter'));
    const there = (client: WireClient, node: ProgramNode) => {
      const same = new WireClient(both.url(node, 'counter'));
      same.sessionId = client.sessionId;
      return same;
    };
    const pids = async (client: WireClient) => {
      const calls = Array.from({ length: 10 }, (_, i) => who(there(client, i % 2 === 0 ? a : b)));
      return new Set((await Promise.all(calls)).map(({ pid }) => pid));
    };
    const [ofFirst, ofSecond] = await Promise.all([pids(first), pids(second)]);
    assert.equal(ofFirst.size, 1);
    assert.equal(ofSecond.size, 1);
    assert.notDeepEqual(ofFirst, ofSecond);
    const { connections } = (await a.call('server', 'counter'))!;
    const mine = connections.filter(({ pid }) => ofFirst.has(pid!) || ofSecond.has(pid!));
    assert.equal(mine.length, 2);
  }));

test('S0.13 S0.14 S0.16 check:A4 a worker is replaced during calls of both nodes, without a gap, and stopped with its process', () =>
  cluster(async (nodes) => {
    await using both = await programs(nodes);
    const { a, b } = both;
    const definition = (version: string) => counterServer({ isolation: 'shared', env: { VERSION: version } });
    await a.call('startServer', 'counter', definition('1'));
    await a.call('startServer', 'another', counterServer({ start: 'lazy' }));
    assert.deepEqual(await a.call('activeServers'), ['another', 'counter']);
    assert.deepEqual(await b.call('activeServers'), []);
    const clients = [await opened(both.url(a, 'counter')), await opened(both.url(b, 'counter'))] as const;
    const before = await who(clients[0]);
    await a.call('startServer', 'counter', definition('1'));
    assert.equal((await who(clients[1])).pid, before.pid, 'the same definition changes nothing');

    // Calls all the time, and one that the old process still runs.
    const file = join(nodes.folder, 'go');
    const waiting = await clients[1].post({
      jsonrpc: '2.0',
      id: 'w',
      method: 'tools/call',
      params: { name: 'wait', arguments: { file }, _meta: { progressToken: 'p' } },
    });
    assert.equal((await waiting.message()).method, 'notifications/progress');
    let over = false;
    const pids = new Set<number>();
    const load = clients.map(async (client) => {
      while (!over) pids.add((await who(client)).pid);
    });
    const replaced = a.call('startServer', 'counter', definition('2'));
    await until(() => pids.size === 2, 'the new process to serve');
    assert.ok(alive(before.pid), 'the old process still runs a call');
    writeFileSync(file, '');
    let last = await waiting.message();
    while (last.id !== 'w') last = await waiting.message();
    assert.equal(last.result.content[0].text, 'waited');
    await replaced;
    over = true;
    await Promise.all(load);
    assert.equal(alive(before.pid), false);

    const { pid } = await who(clients[0]);
    assert.equal(await a.call('unregisterServer', 'counter'), true);
    assert.equal(alive(pid), false, 'the process has ended before the answer');
    assert.deepEqual(await a.call('activeServers'), ['another']);
    assert.equal(await a.call('unregisterServer', 'counter'), false);
    assert.equal(await a.call('unregisterServer', 'nobody'), false);
    await until(
      async () => (await b.call('tools')).every(({ server }) => server !== 'counter'),
      'the other node to know',
    );
    await assert.rejects(a.call('startServer', 'a nother', { command: '' }), /name|command/);
    assert.deepEqual(await a.call('activeServers'), ['another']);
  }));

test('S0.15 all workers end at once, stubborn ones too, and with the end of a node', () =>
  cluster(async (nodes) => {
    await using both = await programs(nodes);
    const { a, b } = both;
    const stubborn = { command: process.execPath, args: ['--import', STUBBORN, COUNTER] };
    for (const name of ['one', 'two']) await a.call('startServer', name, counterServer());
    await a.call('startServer', 'stubborn', stubborn);
    await b.call('startServer', 'other', stubborn);
    const pids: number[] = [];
    for (const name of ['one', 'two', 'stubborn']) pids.push((await who(await opened(both.url(b, name)))).pid);
    const other = await opened(both.url(a, 'other'));
    const left = await who(other);
    await a.call('unregisterServers');
    assert.deepEqual(pids.filter(alive), []);
    assert.deepEqual(await a.call('activeServers'), []);
    assert.equal((await who(other)).pid, left.pid, 'those of the other node go on');
    await b[Symbol.asyncDispose]();
    assert.equal(alive(left.pid), false);

    // A node that gets SIGTERM and a node that crashes both leave no process behind.
    for (const signal of ['SIGTERM', 'SIGABRT'] as const) {
      const node = await nodes.node(`of-${signal.toLowerCase()}`, { stubborn });
      const { pid } = await who(await opened(node.serverUrl('stubborn')));
      node.kill(signal);
      await node.exited;
      await until(() => !alive(pid), `the process of the node to end after ${signal}`);
    }
  }));

test('S0.12 check:A2 nodes start with all rows of the store, more than a thousand; a row that cannot start is reported and skipped', () =>
  cluster(async (nodes) => {
    await using database = await PostgresServer.start();
    const rows = new Map<string, string>([
      ['broken', '{"command":'],
      ['failing', '{"command":"/nowhere/there/is/none"}'],
      ['counter', JSON.stringify(counterServer())],
    ]);
    for (let i = 0; i < 1_200; i++) rows.set(`server-${i}`, '{"url":"http://127.0.0.1:1/mcp","start":"lazy"}');
    const runTimeStore = new PostgresRunTimeStore({ url: database.url, schema: 'trunkline', clock: systemClock });
    const writes = [...rows].map(([key, text]) => {
      const value = JSON.stringify({ text, folder: nodes.folder, addedAt: 1, changedAt: 1 });
      return { kind: 'put', collection: SERVERS, key, value } as const;
    });
    for (let i = 0; i < writes.length; i += 500) assert.ok((await runTimeStore.apply(writes.slice(i, i + 500))).ok);
    await runTimeStore.close();

    const store = { cluster: { store: database.url } };
    const both = await Promise.all([nodes.node('a', {}, store), nodes.node('b', {}, store)]);
    for (const node of both) {
      const { servers } = await node.control<{ servers: { name: string }[] }>('/api/v1/servers');
      const names = servers.map(({ name }) => name).sort();
      assert.deepEqual(names, [...rows.keys()].sort());
      assert.equal((await node.control<{ state: string }>('/api/v1/servers/broken')).state, 'misconfigured');
      const { desiredProblems } = await node.control<{ desiredProblems: string[] }>('/api/v1/gateway');
      assert.equal(desiredProblems.length, 1);
      assert.match(desiredProblems[0]!, /stored server broken cannot be read/);
      await until(async () => {
        const { state } = await node.control<{ state: string }>('/api/v1/servers/failing');
        return state === 'failed';
      }, 'the failed start to be reported');
      await callable(node, 'counter');
      assert.ok((await who(await opened(node.serverUrl('counter')))).pid > 0);
    }

    // A node does not start without its store, because it cannot read its servers.
    await database.kill();
    await assert.rejects(nodes.node('c', {}, store), (error: Error) => {
      assert.match(error.message, /PostgreSQL at 127\.0\.0\.1:\d+\/postgres/);
      return true;
    });
    const config = { cluster: { nats: nodes.nats.url, node: 'd', secret: SECRET, store: database.url } };
    await assert.rejects(ProgramNode.start({ config }), /PostgreSQL at 127\.0\.0\.1/);
  }));

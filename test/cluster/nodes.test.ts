import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { alive, callable, onCluster, ownerOf, revisionOf, type Who, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);
const who = async (client: WireClient): Promise<Who> => JSON.parse(await client.callText('who'));

test('S0.18 check:H4 check:H5 a call crosses nodes on a real nats-server, with its progress, its input requests and its bytes', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', {});
    await nodes.node('b', { counter: counterServer() });
    await callable(a, 'counter');
    const client = await WireClient.open(a.mcpUrl, { capabilities: { roots: {} } });
    client.answer = () => ({ roots: [{ uri: 'file:///a' }, { uri: 'file:///b' }] });
    await until(async () => (await client.toolNames()).includes('counter__who'), 'its tools');
    assert.equal(await client.callText('counter__count'), '1');
    assert.equal(await client.callText('counter__count'), '2');
    assert.equal(await client.callText('counter__ask'), '2');
    const { epoch } = JSON.parse(await client.callText('counter__who')) as Who;
    assert.match(epoch, /^\d+\.\d+$/);
  }));

test('fault:F30 goal:G5 check:H7 kill -9 of the owner during a call: UNKNOWN, and the session continues at another instance', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', {});
    const instances = [
      await nodes.node('b', { counter: counterServer() }),
      await nodes.node('c', { counter: counterServer() }),
    ];
    await callable(a, 'counter');
    const client = await WireClient.open(a.serverUrl('counter'));
    const before = await who(client);
    const file = join(nodes.folder, 'held');
    const held = client.request('tools/call', { name: 'hold', arguments: { file } });
    await until(() => existsSync(file), 'the call to be held');
    const owner = await ownerOf(instances, before.pid);
    owner.kill('SIGKILL');
    const killedAt = performance.now();
    const { message } = await held;
    assert.equal(wordOf(message), 'UNKNOWN');
    console.log(`# in-flight call answered after ${Math.round(performance.now() - killedAt)} ms`);
    const after = await who(client);
    console.log(`# session usable after ${Math.round(performance.now() - killedAt)} ms`);
    assert.notEqual(after.pid, before.pid);
    assert.ok(revisionOf(after) > revisionOf(before), `${after.epoch} after ${before.epoch}`);
    await until(() => !alive(before.pid), 'the process of the dead node to end');
  }));

test('fault:F31 an owner that is paused and resumes after another node took over sends nothing more', () =>
  cluster(async (nodes) => {
    const instances = [
      await nodes.node('b', { counter: counterServer() }),
      await nodes.node('c', { counter: counterServer() }),
    ] as const;
    const a = await nodes.node('a', {});
    await callable(a, 'counter');
    const client = await WireClient.open(a.serverUrl('counter'));
    const before = await who(client);
    const owner = await ownerOf(instances, before.pid);
    owner.kill('SIGSTOP');
    const first = await client.request('tools/call', { name: 'count', arguments: {} });
    assert.ok(['UNKNOWN', 'NOT_SENT'].includes(wordOf(first.message)), JSON.stringify(first.message));
    let after = before;
    await until(async () => {
      const { message } = await client.request('tools/call', { name: 'who', arguments: {} });
      if (wordOf(message) !== 'RESULT') return false;
      after = JSON.parse(message.result.content[0].text) as Who;
      return true;
    }, 'the session to go on');
    assert.notEqual(after.pid, before.pid);
    assert.ok(revisionOf(after) > revisionOf(before), `${after.epoch} after ${before.epoch}`);
    owner.kill('SIGCONT');
    await until(() => !alive(before.pid), 'the process of the paused owner to end');
    await until(() => owner.serves(), 'the paused node to be back');
    assert.deepEqual((await who(client)).pid, after.pid);
    assert.match(owner.stderr, /"event":"node_fenced","paused":true/);
    await until(
      () => /"event":"loop_watch_stood_still"/.test(owner.stderr),
      'the thread to report that it stood still too',
    );
  }));

test('fault:F28 goal:G14 nats is killed and returns: calls without a lease go on, others are NOT_SENT, and their process is used again', () =>
  cluster(async (nodes) => {
    const shared = counterServer({ isolation: 'shared' });
    const a = await nodes.node('a', { counter: counterServer(), shared });
    await callable(a, 'counter', 'shared');
    const own = await WireClient.open(a.serverUrl('counter'));
    const common = await WireClient.open(a.serverUrl('shared'));
    const before = await who(own);
    await common.callText('count');
    await nodes.nats.kill();
    await until(async () => !(await a.serves()), 'the node to be fenced');
    // All nodes that share NATS lack it: none is taken out of service, and /health reports what is degraded.
    assert.equal(await a.ready(), true);
    assert.match(JSON.stringify(await a.health()), /"status":"degraded".*"degraded":\["fenced: /);
    const refused = await own.request('tools/call', { name: 'who', arguments: {} });
    assert.equal(wordOf(refused.message), 'NOT_SENT');
    assert.equal(refused.message.error.data.retryable, true);
    assert.equal(await common.callText('count'), '2');
    await nodes.nats.run();
    // Its lease and its store come back each in its own time: one is renewed every 0.5 s, the other is read every 2 s.
    await until(async () => (await a.health())?.status === 'ready', 'the node to be ready again');
    assert.deepEqual(await who(own), before);
    assert.equal(await common.callText('count'), '3');
  }));

test('check:H4 a singleton runs once in the cluster, is called from every node, and moves with the end of its node', () =>
  cluster(async (nodes) => {
    const servers = { one: counterServer({ singleton: true, isolation: 'shared' }) };
    const all: NodeProcess[] = [];
    for (const name of ['a', 'b', 'c']) all.push(await nodes.node(name, servers));
    for (const node of all) await callable(node, 'one');
    const clients = await Promise.all(all.map((node) => WireClient.open(node.serverUrl('one'))));
    const counts: string[] = [];
    for (const client of clients) counts.push(await client.callText('count'));
    assert.deepEqual(counts, ['1', '2', '3']);
    const before = await who(clients[0]!);
    const owner = await ownerOf(all, before.pid);
    const rest = clients.filter((_, i) => all[i] !== owner);
    owner.kill('SIGTERM');
    assert.equal(await owner.exited, 0);
    const after = await who(rest[0]!);
    assert.notEqual(after.pid, before.pid);
    assert.ok(revisionOf(after) > revisionOf(before), `${after.epoch} after ${before.epoch}`);
    assert.equal((await who(rest[1]!)).pid, after.pid);
    assert.equal(alive(before.pid), false);
  }));

test('S0.18 a server restarts at every node that has it, a singleton where it runs, whichever node gets the request', () =>
  cluster(async (nodes) => {
    const many = counterServer({ isolation: 'shared' });
    const servers = { many, one: counterServer({ singleton: true, isolation: 'shared' }) };
    const all = [await nodes.node('a', servers), await nodes.node('b', servers), await nodes.node('c', {})];
    for (const node of all) await callable(node, 'many', 'one');
    const instances = all.slice(0, 2);
    const pids = (server: string, at: readonly NodeProcess[]) =>
      Promise.all(at.map(async (node) => (await who(await WireClient.open(node.serverUrl(server)))).pid));
    for (const node of all) {
      const before = [...(await pids('many', instances)), ...(await pids('one', all))];
      assert.equal(new Set(before).size, 3, 'one process of each home, and one of the singleton');
      for (const server of ['many', 'one']) await node.control(`/api/v1/servers/${server}/restart`, 'POST');
      const after = [...(await pids('many', instances)), ...(await pids('one', all))];
      assert.equal(new Set(after).size, 3);
      assert.equal(new Set([...before, ...after]).size, 6, `asked of ${node.name}: ${before} and then ${after}`);
      assert.ok(!before.some(alive), 'the replaced processes have ended');
    }
  }));

test('check:C4 S0.18 the connection that the sessions of a principal share survives the first of them, at every node', () =>
  cluster(async (nodes) => {
    const servers = { counter: counterServer({ isolation: 'principal' }) };
    const [a, b] = [await nodes.node('a', servers), await nodes.node('b', servers)];
    for (const node of [a, b]) await callable(node, 'counter');
    const first = await WireClient.open(a.serverUrl('counter'));
    assert.equal(await first.callText('count'), '1');
    const others = [await WireClient.open(a.serverUrl('counter')), await WireClient.open(b.serverUrl('counter'))];
    const before = await who(first);
    const ended = await fetch(first.url, { method: 'DELETE', headers: { 'mcp-session-id': first.sessionId! } });
    assert.ok(ended.ok, String(ended.status));
    const counts: string[] = [];
    for (const client of others) counts.push(await client.callText('count'));
    assert.deepEqual(counts, ['2', '3']);
    const { pid, epoch } = await who(others[1]!);
    assert.deepEqual([pid, epoch], [before.pid, before.epoch]);
  }));

test('trunkline nodes lists nodes and conflicts of definitions, trunkline drain drains a node', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', { counter: counterServer() });
    await nodes.node('b', { counter: counterServer({ timeoutMs: 5_000 }), other: counterServer() });
    const c = await nodes.node('c', { counter: counterServer({ timeoutMs: 5_000 }) });
    await callable(a, 'other');
    const run = (...words: string[]) =>
      trunkline([...words, '--data-dir', join(a.gateway.folder, 'data')], { cwd: a.gateway.folder });
    await until(async () => {
      const { nodes: known } = await a.control<{ nodes: { state: string }[] }>('/api/v1/nodes');
      return known.length === 3 && known.every(({ state }) => state === 'ready');
    }, 'three nodes');
    let out = '';
    await until(async () => {
      ({ out } = await run('nodes'));
      return /^! counter is defined differently: .* b, c, /m.test(out);
    }, 'the conflict of all three to be seen');
    assert.match(out, /^\* a +ready .* 1 server$/m);
    assert.match(out, /^ {2}b +ready .* 2 servers$/m);
    assert.match(out, /^! counter is defined differently: calls go to that of b, c, not to that of a$/m);
    const client = await WireClient.open(a.serverUrl('counter'));
    const served = await who(client);
    assert.notEqual((await ownerOf(nodes.nodes, served.pid)).name, 'a');
    const left = await run('drain', 'c');
    assert.equal(left.out, 'node c has left\n');
    assert.equal(await c.exited, 0);
    assert.equal((await run('drain', 'nobody')).code, 1);
    assert.equal((await run('drain')).code, 0);
    assert.equal(await a.exited, 0);
  }));

interface Known {
  readonly nodes: readonly { node: string; here: boolean; state: string; calls: number; servers: string[] }[];
  readonly conflicts: readonly { server: string; sides: string[][] }[];
}

test('check:J3 the control API of any node lists all nodes and conflicts, and drains any of them', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', { counter: counterServer(), own: counterServer() });
    const b = await nodes.node('b', { counter: counterServer({ timeoutMs: 5_000 }) });
    const known = (node: NodeProcess): Promise<Known> => node.control<Known>('/api/v1/nodes');
    for (const node of [a, b]) {
      await until(async () => {
        const { nodes: all, conflicts } = await known(node);
        return all.length === 2 && all.every(({ state }) => state === 'ready') && conflicts.length === 1;
      }, `two nodes and a conflict, as ${node.name} sees it`);
      const { nodes: all, conflicts } = await known(node);
      assert.deepEqual(
        all.map(({ node: name, here, servers }) => ({ name, here, servers: servers.toSorted() })).toSorted(byName),
        [
          { name: 'a', here: node === a, servers: ['counter', 'own'] },
          { name: 'b', here: node === b, servers: ['counter'] },
        ],
      );
      assert.deepEqual(conflicts, [{ server: 'counter', sides: [['a'], ['b']] }]);
    }
    // A server of one node is one of the servers that another shows, and can be called there.
    await callable(b, 'own');
    await assert.rejects(a.control('/api/v1/nodes/nobody/drain', 'POST'), /404.*node_unknown/);
    assert.deepEqual(await a.control('/api/v1/nodes/b/drain', 'POST'), { draining: 'b' });
    assert.equal(await b.exited, 0);
    await until(async () => (await known(a)).nodes.length === 1, 'b to be gone');
    assert.deepEqual((await known(a)).conflicts, []);
  }));

function byName(one: { readonly name: string }, other: { readonly name: string }): number {
  return one.name < other.name ? -1 : 1;
}

test('check:C9 S0.18 each request of a session goes to another node, one of them dies, and the session goes on', () =>
  cluster(async (nodes) => {
    const servers = { counter: counterServer(), shared: counterServer({ isolation: 'shared' }) };
    const all: NodeProcess[] = [];
    for (const name of ['a', 'b', 'c']) all.push(await nodes.node(name, servers));
    for (const node of all) await callable(node, 'counter', 'shared');
    const first = await WireClient.open(all[0]!.serverUrl('counter'));
    const client = (node: NodeProcess): WireClient => {
      const at = new WireClient(node.serverUrl('counter'));
      at.sessionId = first.sessionId;
      return at;
    };
    const counts: string[] = [];
    for (let i = 0; i < 9; i++) counts.push(await client(all[i % 3]!).callText('count'));
    assert.deepEqual(counts, ['1', '2', '3', '4', '5', '6', '7', '8', '9']);
    const before = await who(first);
    const owner = await ownerOf(all, before.pid);
    const rest = all.filter((node) => node !== owner);
    owner.kill('SIGKILL');
    let after = before;
    await until(async () => {
      const { message } = await client(rest[0]!).request('tools/call', { name: 'who', arguments: {} });
      if (wordOf(message) !== 'RESULT') return false;
      after = JSON.parse(message.result.content[0].text) as Who;
      return true;
    }, 'the session to go on at another node');
    assert.ok(revisionOf(after) > revisionOf(before), `${after.epoch} after ${before.epoch}`);
    assert.equal((await who(client(rest[1]!))).pid, after.pid);
    // A session that ends at one node ends at every node, with its process.
    const url = rest[1]!.serverUrl('counter');
    const ended = await fetch(url, { method: 'DELETE', headers: { 'mcp-session-id': first.sessionId! } });
    assert.ok(ended.ok, String(ended.status));
    await until(() => !alive(after.pid), 'its process to end');
    await until(async () => {
      const { status } = await client(rest[0]!).request('ping');
      return status === 404;
    }, 'the other node to know');
  }));

test('check:C9 check:H5 an answer and a cancellation find their call, whichever node the client sends them to', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', { counter: counterServer() });
    const b = await nodes.node('b', {});
    await callable(b, 'counter');
    const client = await WireClient.open(a.serverUrl('counter'), { capabilities: { roots: {} } });
    const url = b.serverUrl('counter');
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-session-id': client.sessionId!,
      'mcp-protocol-version': '2025-11-25',
    };
    const send = (message: object) =>
      fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
    const asking = await client.post({ jsonrpc: '2.0', id: 77, method: 'tools/call', params: { name: 'ask' } });
    const question = await asking.message();
    const answered = await send({ id: question.id, result: { roots: [{ uri: 'file:///a' }] } });
    assert.equal(answered.status, 202);
    assert.equal((await asking.message()).result.content[0].text, '1');
    const file = join(nodes.folder, 'held');
    const holding = client.request('tools/call', { name: 'hold', arguments: { file } });
    await until(() => existsSync(file), 'the call to be held');
    for (let id = 1; id < 10; id++) await send({ method: 'notifications/cancelled', params: { requestId: id } });
    const { message } = await holding;
    assert.equal(message?.result, undefined);
  }));

test('check:C9 messages of a server outside of calls reach the stream of the client, at whichever node that is', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', { counter: counterServer() });
    const b = await nodes.node('b', {});
    await callable(b, 'counter');
    const first = await WireClient.open(a.serverUrl('counter'));
    const there = new WireClient(b.serverUrl('counter'));
    there.sessionId = first.sessionId;
    const stream = await there.listen();
    let said = '';
    const reading = (async () => {
      for (let message = await stream.message(); message !== null; message = await stream.message()) {
        said += JSON.stringify(message);
      }
    })().catch(() => {});
    await until(async () => {
      await first.callText('say');
      return said.includes('"data":"said"');
    }, 'the message on the stream of the other node');
    stream.drop();
    await reading;
  }));

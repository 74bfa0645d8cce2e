import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { bridgedTools, serverProxies, serverProxy } from '../../src/compat/index.ts';
import { createGateway, type Gateway, memoryMessengers, openNode } from '../../src/index.ts';
import { SECRET } from '../support/cluster-bench.ts';
import { alive, onCluster, type Who } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, until } from '../support/cluster-processes.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { textResult, textServer, tool } from '../support/text-server.ts';

/** A wait for a server must take less than this. */
const LONG_MS = 30_000;

/** Gateways in this program that are nodes of one cluster, joined by its memory. */
class Nodes implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-embedded-'));
  readonly #messenger = memoryMessengers();
  readonly #gateways: Gateway[] = [];

  async open(node: string): Promise<Gateway> {
    const store = { list: () => ({ servers: [], next: null }) };
    const gateway = await openNode({ store, messenger: this.#messenger(), node });
    this.#gateways.push(gateway);
    return gateway;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const gateway of this.#gateways) await gateway.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const singleton = (more: object = {}): object => counterServer({ singleton: true, isolation: 'shared', ...more });

async function who(gateway: Gateway, server: string): Promise<Who> {
  return JSON.parse((await gateway.callTool({ server, tool: 'who' })).content[0]!.text!);
}

test('S2.26 S0.13 a singleton is registered once any node runs it: this one, or the one that has it already', async () => {
  await using nodes = new Nodes();
  const [a, b] = [await nodes.open('a'), await nodes.open('b')];
  for (const [gateway, how] of [
    [a, 'registerServer'],
    [b, 'registerServer'],
    [a, 'startServer'],
    [b, 'startServer'],
  ] as const) {
    const status = await gateway[how]('one', singleton());
    assert.equal(status.state, 'running');
    assert.ok(status.tools.includes('who'));
    assert.equal(gateway.server('one')!.state, 'running');
    assert.deepEqual(gateway.activeServers(), ['one']);
  }
  assert.equal((await who(a, 'one')).pid, (await who(b, 'one')).pid);
  // Requests of the program reach the server at the node that runs it.
  const client = b.client('one')!;
  assert.equal(client.isInitialized, true);
  assert.equal(client.serverInfo?.name, 'counter');
  assert.ok((await client.refreshTools()).some(({ name }) => name === 'who'));
  assert.equal(serverProxy(b, 'one')!.state, 'connected');
  assert.ok(serverProxy(b, 'one')!.tools.some(({ name }) => name === 'who'));
  assert.deepEqual(
    (await b.ready()).map(({ name, state }) => [name, state]),
    [['one', 'running']],
  );
  // Changes of the program to its copy do not affect the gateway.
  (b.server('one')!.tools as string[]).length = 0;
  assert.ok(b.server('one')!.tools.includes('who'));
});

test('S2.26 a singleton whose start fails, here or elsewhere, is registered with the reason', async () => {
  await using nodes = new Nodes();
  for (const gateway of [await nodes.open('a'), await nodes.open('b')]) {
    const status = await gateway.registerServer('one', { command: 'trunkline-no-such-program', singleton: true });
    assert.equal(status.state, 'failed');
    assert.match(status.reason ?? '', /trunkline-no-such-program/);
  }
});

test('S4.9 a singleton that is unregistered while it starts elsewhere is CANCELLED here, and goes on starting there', async () => {
  await using nodes = new Nodes();
  const [a, b] = [await nodes.open('a'), await nodes.open('b')];
  const go = join(nodes.folder, 'go');
  const waits = `const { existsSync } = require('node:fs');
const timer = setInterval(() => { if (!existsSync(process.env.GO)) return; clearInterval(timer); import(process.env.MODULE); }, 20);`;
  const { args } = counterServer() as { args: string[] };
  const slow = singleton({ args: ['-e', waits], env: { GO: go, MODULE: args[0]! } });
  const first = a.registerServer('one', slow);
  await until(() => a.server('one')?.state === 'starting', 'the start');
  const second = b.registerServer('one', slow);
  await until(() => b.server('one')?.state === 'starting', 'the other node to hear of the start');
  const cancelled = assert.rejects(second, { code: 'CANCELLED', message: /unregistered/ });
  assert.equal(await b.unregisterServer('one'), true);
  await cancelled;
  writeFileSync(go, '');
  assert.equal((await first).state, 'running');
});

test('the wait for a singleton that no node runs ends with the gateway', async () => {
  await using nodes = new Nodes();
  const [a, b] = [await nodes.open('a'), await nodes.open('b')];
  await b.registerServer('one', singleton());
  // Calls use this definition, and the node of the other definition owns the singleton.
  const waiting = assert.rejects(a.registerServer('one', singleton({ env: { OTHER: 'one' } })), {
    code: 'INVALID_REQUEST',
    message: /takes nothing new/,
  });
  const begun = performance.now();
  await until(() => a.activeServers().includes('one') && a.server('one') === null, 'nobody to run it');
  await a.close();
  await waiting;
  assert.ok(performance.now() - begun < LONG_MS);
});

test('S0.18 a restart at any node returns the server’s status after it, and rejects if no node could do it', async () => {
  await using nodes = new Nodes();
  const [a, b, c] = [await nodes.open('a'), await nodes.open('b'), await nodes.open('c')];
  await a.registerServer('one', singleton());
  await b.registerServer('one', singleton());
  await c.ready({ servers: ['one'] });
  for (const [i, gateway] of [a, b, c].entries()) {
    const { pid } = await who(gateway, 'one');
    const status = await gateway.restart('one');
    assert.deepEqual([status.state, status.restarts], ['running', i + 1]);
    assert.notEqual((await who(gateway, 'one')).pid, pid);
    assert.equal(alive(pid), false);
  }
  await assert.rejects(c.restart('nobody'), { code: 'INVALID_PARAMS', message: 'there is no server nobody' });
  // The server is up again at once: the last state that c received is older.
  await a.registerServer('far', textServer({ tools: () => [tool('say')] }));
  await until(() => c.server('far')?.state === 'running', 'the third to hear of it');
  const { state, restarts } = await c.restart('far');
  assert.deepEqual([state, restarts], ['running', 1]);
  await a.close();
  await until(() => c.server('far')?.state === 'unreachable', 'its node to have left');
  await assert.rejects(c.restart('far'), { code: 'NOT_SENT', message: /node a, which has it, has left/ });
});

test('S2.35 S3.20 servers that only another node has are servers of the gateway: listed, as clients, bridged, until they are gone there', async () => {
  await using nodes = new Nodes();
  const [a, b] = [await nodes.open('a'), await nodes.open('b')];
  const { router } = b;
  const text = textServer({ tools: () => [tool('say')], call: () => textResult('said') });
  await a.registerServer('far', text);
  await b.registerServer('near', text);
  await until(() => b.server('far') !== null, 'the other node to hear of it');
  await b.ready({ servers: ['far'] });
  const names = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name);
  assert.deepEqual(names(b.servers()), ['far', 'near']);
  assert.deepEqual(names(serverProxies(b)), ['far', 'near']);
  assert.deepEqual(names(router.clients()), ['far', 'near']);
  assert.deepEqual(names(await bridgedTools(b)), ['mcp__far__say', 'mcp__near__say']);
  assert.equal((await router.routeToolCall('far__say')).content[0]?.text, 'said');
  assert.equal((await b.client('far')!.callTool('say')).content[0]?.text, 'said');
  assert.doesNotThrow(() => b.connect({ server: 'far' }));
  assert.deepEqual(b.activeServers(), ['near'], 'it runs elsewhere');
  assert.deepEqual(names(await b.ready()), ['near']);
  assert.equal(await b.unregisterServer('far'), false, 'it is not registered here');
  await a.unregisterServer('far');
  await until(() => b.client('far') === null, 'it to be gone');
  assert.deepEqual(names(b.servers()), ['near']);
  assert.deepEqual(names(router.clients()), ['near']);
});

test('fault:F33 a node in a program that has to drain lets calls finish, those of the program too, notifies it, and closes', async () => {
  await using nodes = new Nodes();
  const [a, b] = [await nodes.open('a'), await nodes.open('b')];
  await b.registerServer('counter', counterServer({ isolation: 'shared' }));
  await until(() => a.server('counter')?.state === 'running', 'the other node to hear of it');
  const { pid } = await who(a, 'counter');
  const { controlUrl, controlToken } = await a.listen({ port: 0, controlPort: 0 });
  const files = ['ours', 'theirs'].map((name) => join(nodes.folder, name));
  const calls = [b, a].map(async (gateway, i) => {
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const options = { onProgress: () => resolve() };
    const call = gateway.callTool({ server: 'counter', tool: 'wait' }, { file: files[i] }, options);
    await begun;
    return { call };
  });
  const [ours, theirs] = await Promise.all(calls);
  let asked = 0;
  let closed = false;
  b.on('drainAsked', () => asked++);
  void b.closed.then(() => {
    closed = true;
  });
  const drain = () =>
    fetch(`${controlUrl}/api/v1/nodes/b/drain`, {
      method: 'POST',
      body: '{}',
      headers: { authorization: `Bearer ${controlToken}`, 'content-type': 'application/json' },
    });
  assert.equal((await drain()).status, 200);
  assert.equal((await drain()).status, 200);
  await until(() => asked > 0, 'the program to be told');
  await assert.rejects(b.registerServer('more', counterServer()), { code: 'INVALID_REQUEST', message: /draining/ });
  writeFileSync(files[1]!, '');
  assert.equal((await theirs!.call).content[0]?.text, 'waited');
  await new Promise((done) => setTimeout(done, 300));
  assert.equal(closed, false, 'the program has a call under way');
  writeFileSync(files[0]!, '');
  assert.equal((await ours!.call).content[0]?.text, 'waited');
  await b.closed;
  assert.equal(asked, 1);
  assert.equal(alive(pid), false);
  await until(() => a.server('counter')?.state !== 'running', 'the other node to know');
  await b.close();
});

test('S0.13 check:H4 on NATS: programs register one singleton, restart it wherever it runs, and trunkline drain drains one of them', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const c = await nodes.node('c', {});
      const config = (node: string) => ({ config: { cluster: { nats: nodes.nats.url, node, secret: SECRET } } });
      await using a = await createGateway(config('a'));
      await using b = await createGateway(config('b'));
      const statuses = await Promise.all([a, b].map((gateway) => gateway.registerServer('one', singleton())));
      assert.deepEqual(
        statuses.map(({ state }) => state),
        ['running', 'running'],
      );
      const before = await who(a, 'one');
      assert.deepEqual(await who(b, 'one'), before);
      for (const [i, gateway] of [a, b].entries()) assert.equal((await gateway.restart('one')).restarts, i + 1);
      const { pid } = await who(b, 'one');
      assert.notEqual(pid, before.pid);
      const runsAtA = a.server('one')!.connections.some((connection) => connection.pid === pid);
      const [instance, other, name] = runsAtA ? [a, b, 'a'] : [b, a, 'b'];
      let asked = 0;
      instance.on('drainAsked', () => asked++);
      const left = await trunkline(['drain', name, '--data-dir', join(c.gateway.folder, 'data')], {
        cwd: c.gateway.folder,
      });
      assert.equal(left.out, `node ${name} has left\n`);
      await instance.closed;
      assert.equal(asked, 1);
      assert.equal(alive(pid), false);
      assert.notEqual((await who(other, 'one')).pid, pid, 'it has moved');
    },
  ));

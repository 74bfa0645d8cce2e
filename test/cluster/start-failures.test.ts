import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { callable, onCluster, ownerOf, type Who, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import type { Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);
const who = async (client: WireClient): Promise<Who> => JSON.parse(await client.callText('who'));

test('S0.18 a server that one node cannot start is called, and listed, at another instance, and here again once it starts', () =>
  cluster(async (nodes) => {
    const shared = breakable({ isolation: 'shared' });
    const [a, b] = [await nodes.node('a', { shared }), await nodes.node('b', { shared })];
    for (const node of [a, b]) await callable(node, 'shared');
    writeFileSync(join(a.gateway.folder, 'broken'), '');
    const restarted = await a.control<{ state: string }>('/api/v1/servers/shared/restart', 'POST');
    assert.equal(restarted.state, 'failed');
    const [atA, atB] = [await WireClient.open(a.serverUrl('shared')), await WireClient.open(b.serverUrl('shared'))];
    assert.equal(await atB.callText('count'), '1');
    assert.equal(await counted(atA), '2');
    assert.deepEqual(await atA.toolNames(), await atB.toolNames());
    rmSync(join(a.gateway.folder, 'broken'));
    await a.control('/api/v1/servers/shared/restart', 'POST');
    assert.deepEqual([await atA.callText('count'), await atB.callText('count')], ['1', '1'], 'each has its own again');
  }));

/** A server that does not start while a file `broken` is in the folder of its node. */
function breakable(more: object): object {
  const { command, args } = counterServer() as { command: string; args: string[] };
  const script = 'test -e broken && exit 3; exec "$@"';
  return counterServer({ ...more, command: 'sh', args: ['-c', script, 'sh', command, ...args] });
}

async function stateAt(node: NodeProcess, server: string): Promise<string | undefined> {
  const { servers } = await node.control<{ servers: { name: string; state: string }[] }>('/api/v1/servers');
  return servers.find(({ name }) => name === server)?.state;
}

/** Calls until it is served: a call ends in NOT_SENT until its node knows of another one where the server runs. */
async function counted(client: WireClient): Promise<string> {
  let text: string | null = null;
  const count = async (): Promise<boolean> => {
    const { message } = await client.request('tools/call', { name: 'count', arguments: {} });
    const word = wordOf(message);
    assert.ok(word === 'RESULT' || word === 'NOT_SENT', word);
    text = word === 'RESULT' ? message.result.content[0].text : null;
    return text !== null;
  };
  await until(count, 'the call to be served');
  return text!;
}

test('S0.18 check:H7 sessions, and a singleton, of a node that cannot start their server move to another instance', () =>
  cluster(async (nodes) => {
    const servers = {
      own: breakable({ isolation: 'session' }),
      one: breakable({ isolation: 'shared', singleton: true }),
    };
    const a = await nodes.node('a', servers);
    await callable(a, 'own', 'one');
    const b = await nodes.node('b', servers);
    await callable(b, 'own', 'one');
    const [old, one] = [await WireClient.open(a.serverUrl('own')), await WireClient.open(b.serverUrl('one'))];
    assert.deepEqual([await old.callText('count'), await old.callText('count')], ['1', '2']);
    assert.equal((await ownerOf([a, b], (await who(one)).pid)).name, 'a');
    writeFileSync(join(a.gateway.folder, 'broken'), '');
    // While the process of another session runs.
    const young = await WireClient.open(a.serverUrl('own'));
    assert.equal(await counted(young), '1');
    const [call] = (await a.control<{ calls: Json[] }>('/api/v1/calls?filter=tool:count%20tries>1')).calls;
    const [failed, last] = call!.attempts;
    assert.deepEqual([failed.node, failed.outcome, last.node, last.outcome], ['a', 'NOT_SENT', 'b', 'RESULT']);
    assert.match(failed.reason, /exited with code 3/);
    assert.ok(failed.atMs + failed.ms <= last.atMs + 1 && last.atMs + last.ms <= call!.ms + 1, JSON.stringify(call));
    assert.equal((await ownerOf([a, b], (await who(young)).pid)).name, 'b');
    assert.equal(await old.callText('count'), '3');
    // A process that is killed, and one that its node restarts.
    process.kill((await who(old)).pid, 'SIGKILL');
    const { state } = await a.control<{ state: string }>('/api/v1/servers/one/restart', 'POST');
    assert.equal(state, 'failed');
    await until(async () => (await stateAt(a, 'own')) === 'failed', 'its start to fail');
    const brokenAt = performance.now();
    for (const client of [await WireClient.open(a.serverUrl('own')), old]) {
      assert.equal(await counted(client), '1');
      assert.equal((await ownerOf([a, b], (await who(client)).pid)).name, 'b');
    }
    assert.equal(await counted(one), '1');
    console.log(`# singleton served again after ${Math.round(performance.now() - brokenAt)} ms`);
    assert.equal((await ownerOf([a, b], (await who(one)).pid)).name, 'b');
    // The sessions that moved do not block the server here.
    rmSync(join(a.gateway.folder, 'broken'));
    await until(async () => (await stateAt(a, 'own')) === 'running', 'the server to be back');
    const here = await WireClient.open(a.serverUrl('own'));
    assert.equal(await here.callText('count'), '1');
    assert.equal((await ownerOf([a, b], (await who(here)).pid)).name, 'a');
    assert.equal(await old.callText('count'), '2');
  }));

test('S0.18 a server that requires a login ends in AUTH_REQUIRED, and a misconfigured one is served elsewhere, at every node', () =>
  cluster(async (nodes) => {
    const guarded = createServer((request, response) => {
      request.resume();
      response.writeHead(401).end();
    });
    await new Promise<void>((open) => guarded.listen(0, '127.0.0.1', open));
    try {
      const web = { url: `http://127.0.0.1:${(guarded.address() as AddressInfo).port}/mcp` };
      const wrong = counterServer({ env: { T: '${NOT_SET_ANYWHERE}' } });
      const a = await nodes.node('a', { web, count: wrong });
      const b = await nodes.node('b', { count: counterServer() });
      await callable(b, 'count');
      await until(async () => (await stateAt(b, 'web')) === 'auth_required', 'the state of the other node');
      for (const node of [a, b]) {
        const client = new WireClient(node.serverUrl('web'), 'stateless');
        for (const [method, params] of [['prompts/list'], ['tools/call', { name: 'x', arguments: {} }]] as const) {
          const { message } = await client.request(method, params ?? {});
          const { code, outcome, retryable } = message.error?.data ?? message.result._meta['trunkline/error'];
          assert.deepEqual(
            [message.error?.code ?? code, outcome, retryable],
            [code === undefined ? 53006 : 'AUTH_REQUIRED', 'REFUSED', false],
          );
        }
      }
      await until(async () => (await a.servers()).includes('count'), 'the server of the other node');
      const client = await WireClient.open(a.serverUrl('count'));
      assert.equal(await client.callText('count'), '1');
    } finally {
      guarded.close();
    }
  }));

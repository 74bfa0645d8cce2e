import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

async function cluster(run: (nodes: ClusterProcesses) => Promise<void>): Promise<void> {
  const nodes = await ClusterProcesses.start();
  try {
    await run(nodes);
  } catch (error) {
    for (const { name, stderr } of nodes.nodes) console.error(`--- ${name}\n${stderr.slice(-4_000)}`);
    throw error;
  } finally {
    await nodes.dispose();
  }
}

async function callable(node: NodeProcess, ...servers: string[]): Promise<void> {
  await until(async () => {
    const known = await node.servers();
    return servers.every((server) => known.includes(server));
  }, `${servers} on ${node.name}`);
}

test('S0.18 check:H4 check:H5 a call crosses nodes on a real nats-server, with its progress, its questions and its bytes', () =>
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
    const who = JSON.parse(await client.callText('counter__who'));
    assert.match(who.epoch, /^\d+\.\d+$/);
  }));

test('fault:F30 goal:G5 check:H7 kill -9 of the owner in mid-call: UNKNOWN, and the session goes on at another home', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', {});
    const homes = [
      await nodes.node('b', { counter: counterServer() }),
      await nodes.node('c', { counter: counterServer() }),
    ];
    await callable(a, 'counter');
    const client = await WireClient.open(a.serverUrl('counter'));
    const before = JSON.parse(await client.callText('who'));
    const file = join(nodes.folder, 'held');
    const held = client.request('tools/call', { name: 'hold', arguments: { file } });
    await until(() => existsSync(file), 'the call to be held');
    const { children } = await ownerOf(homes, before.pid);
    children.kill('SIGKILL');
    const killedAt = performance.now();
    const { message } = await held;
    assert.equal(message.error?.data?.outcome ?? message.result?._meta?.['trunkline/error']?.outcome, 'UNKNOWN');
    console.log(`# in-flight call answered after ${Math.round(performance.now() - killedAt)} ms`);
    const after = JSON.parse(await client.callText('who'));
    console.log(`# session usable after ${Math.round(performance.now() - killedAt)} ms`);
    assert.notEqual(after.pid, before.pid);
    assert.ok(epoch(after) > epoch(before), `${after.epoch} after ${before.epoch}`);
    await until(() => !alive(before.pid), 'the process of the dead node to end');
  }));

function epoch({ epoch: text }: { epoch: string }): number {
  return Number(text.split('.').at(-1));
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function ownerOf(homes: readonly NodeProcess[], pid: number): Promise<{ children: NodeProcess }> {
  for (const home of homes) {
    const { servers } = await home.control<{ servers: { name: string; connections: { pid: number | null }[] }[] }>(
      '/api/v1/servers',
    );
    if (servers.some(({ connections }) => connections.some((connection) => connection.pid === pid))) {
      return { children: home };
    }
  }
  throw new Error(`no node has the process ${pid}`);
}

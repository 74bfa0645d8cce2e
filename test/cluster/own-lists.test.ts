import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, type NodeProcess, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

const TOOLSETS = resolve(import.meta.dirname, '../fixtures/stdio/toolsets.mjs');
const SETTLE_MS = 2_500;

/** What the client gets on its stream. */
async function reportsTo(client: WireClient): Promise<{ readonly methods: string[]; drop(): void }> {
  const methods: string[] = [];
  const stream = await client.listen();
  void (async () => {
    for (;;) methods.push((await stream.message()).method);
  })().catch(() => {});
  return { methods, drop: () => stream.drop() };
}

/** The session of this client, through another node. */
function at({ gateway }: NodeProcess, { sessionId }: WireClient): WireClient {
  const client = new WireClient(gateway.mcpUrl, 'stateful');
  client.sessionId = sessionId;
  return client;
}

test('S2.6 S0.18 in a cluster a session sees the lists of its own process at every node, and no other session does', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const servers = { own: { command: process.execPath, args: [TOOLSETS] } };
      const [a, b] = [await nodes.node('a', servers), await nodes.node('b', servers)];
      // Node c has no such server.
      const c = await nodes.node('c', {});
      for (const node of [a, b]) await callable(node, 'own');
      const one = await WireClient.open(a.gateway.mcpUrl);
      const other = await WireClient.open(b.gateway.mcpUrl);
      const pid = await one.callText('own__who');
      assert.notEqual(await other.callText('own__who'), pid);
      const everywhere = [one, at(b, one), at(c, one)];
      const othersEverywhere = [at(a, other), other, at(c, other)];
      // The process is at one node, the client listens at another, and enables the tool through a third.
      const reports = await reportsTo(everywhere[1]!);
      await delay(SETTLE_MS);
      reports.methods.length = 0;
      await everywhere[2]!.call('own__enable', { name: 'extra' });
      await until(async () => reports.methods.includes('notifications/tools/list_changed'), 'the notification');
      for (const client of everywhere) {
        await until(async () => (await client.toolNames()).includes('own__extra'), `${client.url} to list the tool`);
        assert.equal(await client.callText('own__extra'), `extra of ${pid}`);
      }
      await delay(SETTLE_MS);
      for (const client of [...othersEverywhere, await WireClient.open(b.gateway.mcpUrl)]) {
        assert.ok(!(await client.toolNames()).includes('own__extra'), client.url);
        const { message } = await client.request('tools/call', { name: 'own__extra', arguments: {} });
        assert.ok(message.error !== undefined || message.result.isError === true, JSON.stringify(message));
      }
      reports.drop();
    },
  ));

test('S2.6 check:C9 a session sees the lists of its shared process at every node, and is notified of a change there', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const servers = { own: { command: process.execPath, args: [TOOLSETS], isolation: 'shared' } };
      const kept = { cluster: { sharedProcesses: 'session' } };
      const [a, b] = [await nodes.node('a', servers, kept), await nodes.node('b', servers, kept)];
      for (const node of [a, b]) await callable(node, 'own');
      const one = await WireClient.open(a.gateway.mcpUrl);
      const other = await WireClient.open(b.gateway.mcpUrl);
      await delay(SETTLE_MS);
      const pid = await one.callText('own__who');
      assert.equal(await at(b, one).callText('own__who'), pid);
      assert.notEqual(await other.callText('own__who'), pid);
      for (const client of [at(b, one), at(a, other)]) assert.ok((await client.toolNames()).includes('own__base'));
      const reports = await reportsTo(at(b, one));
      await delay(SETTLE_MS);
      reports.methods.length = 0;
      await at(b, one).call('own__enable', { name: 'extra' });
      await until(async () => reports.methods.includes('notifications/tools/list_changed'), 'the notification');
      for (const client of [one, at(b, one)]) {
        await until(async () => (await client.toolNames()).includes('own__extra'), `${client.url} to list the tool`);
        assert.equal(await client.callText('own__extra'), `extra of ${pid}`);
      }
      await delay(SETTLE_MS);
      for (const client of [other, at(a, other)]) {
        assert.ok(!(await client.toolNames()).includes('own__extra'), client.url);
      }
      reports.drop();
    },
  ));

test('S2.6 each client, at every node, receives one notification for each list that changed', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const servers = { own: { command: process.execPath, args: [TOOLSETS], isolation: 'shared' } };
      const [a, b] = [await nodes.node('a', servers), await nodes.node('b', {})];
      for (const node of [a, b]) await callable(node, 'own');
      const clients = [await WireClient.open(a.gateway.mcpUrl), await WireClient.open(b.gateway.mcpUrl)];
      for (const client of clients) assert.ok((await client.toolNames()).includes('own__base'));
      const reports = await Promise.all(clients.map(reportsTo));
      await delay(SETTLE_MS);
      for (const { methods } of reports) methods.length = 0;
      await clients[0]!.call('own__enable', { name: 'extra' });
      // A client that lists before it is notified needs no notification.
      await until(async () => reports.every(({ methods }) => methods.length >= 3), 'the notifications');
      await delay(SETTLE_MS);
      const each = ['prompts', 'resources', 'tools'].map((list) => `notifications/${list}/list_changed`);
      for (const { methods } of reports) assert.deepEqual(methods.sort(), each);
      for (const client of clients) assert.ok((await client.toolNames()).includes('own__extra'), client.url);
      for (const report of reports) report.drop();
    },
  ));

import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { callable, onCluster, ownerOf, type Who, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);

test('S0.18 check:H4 sessions at a full node get processes at another node; if all nodes are full, an idle process of any node ends for them', () =>
  cluster(async (nodes) => {
    const servers = { own: counterServer({ isolation: 'session', limits: { maxProcesses: 2 } }) };
    const [a, b] = [await nodes.node('a', servers), await nodes.node('b', servers)];
    for (const node of [a, b]) await callable(node, 'own');
    const clients: WireClient[] = [];
    const owners: string[] = [];
    for (let i = 0; i < 4; i++) {
      const client = await WireClient.open(a.serverUrl('own'));
      clients.push(client);
      assert.equal(await client.callText('count'), '1');
      const who: Who = JSON.parse(await client.callText('who'));
      owners.push((await ownerOf([a, b], who.pid)).name);
    }
    assert.deepEqual(owners, ['a', 'a', 'b', 'b']);
    for (const client of clients) assert.equal(await client.callText('count'), '2', 'its process is the same');
    const waitFor = { name: 'wait', arguments: { file: join(tmpdir(), 'there is no such file') } };
    for (const client of clients) client.request('tools/call', waitFor).catch(() => {});
    const late = await WireClient.open(b.serverUrl('own'));
    await until(async () => {
      const refused = await late.request('tools/call', { name: 'count', arguments: {} });
      if (wordOf(refused.message) !== 'REFUSED') return false;
      assert.match(JSON.stringify(refused.message), /2 processes, its limit/);
      return true;
    }, 'a call to be refused while all processes are in use');
    const { url, sessionId } = clients[0]!;
    await fetch(url, { method: 'DELETE', headers: { 'mcp-session-id': sessionId! } });
    const who = async (): Promise<Who | null> => {
      const { message } = await late.request('tools/call', { name: 'who', arguments: {} });
      return wordOf(message) === 'RESULT' ? JSON.parse(message.result.content[0].text) : null;
    };
    await until(async () => (await who()) !== null, 'the refused session to be served where there is room again');
    assert.equal((await ownerOf([a, b], (await who())!.pid)).name, 'a');
    // Both nodes are full, all processes of b are in use, and the only idle process is a's.
    const last = await WireClient.open(b.serverUrl('own'));
    await until(async () => {
      const { message } = await last.request('tools/call', { name: 'count', arguments: {} });
      return wordOf(message) === 'RESULT';
    }, 'the idle process of the other node to give way');
  }));

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callable, onCluster, ownerOf, type Who, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);

test('S0.18 check:H4 sessions that come to a node that is full have their processes at one that is not, and none ends for another', () =>
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
    // Nobody has room, and nothing has been idle for long enough to make some.
    const late = await WireClient.open(b.serverUrl('own'));
    const refused = await late.request('tools/call', { name: 'count', arguments: {} });
    assert.equal(wordOf(refused.message), 'REFUSED');
    assert.match(JSON.stringify(refused.message), /2 processes, its limit/);
    const { url, sessionId } = clients[0]!;
    await fetch(url, { method: 'DELETE', headers: { 'mcp-session-id': sessionId! } });
    await until(async () => {
      const { message } = await late.request('tools/call', { name: 'who', arguments: {} });
      return wordOf(message) === 'RESULT';
    }, 'the refused session to be served where there is room again');
    const { pid }: Who = JSON.parse(await late.callText('who'));
    assert.equal((await ownerOf([a, b], pid)).name, 'a');
  }));

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import type { Json } from '../support/raw-http.ts';
import { startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { WireClient } from '../support/wire-client.ts';

const LISTS = ['calls', 'logs', 'recordings', 'instances', 'gateways'] as const;

async function silentIn(node: NodeProcess): Promise<readonly string[]> {
  const read = LISTS.map((list) => node.control<{ silent: readonly string[] }>(`/api/v1/${list}`));
  return (await Promise.all(read)).map(({ silent }) => silent.join());
}

test('lists of all nodes name those that do not answer, and a recording without their part counts as incomplete', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const a = await nodes.node('a', {});
      const b = await nodes.node('b', { counter: counterServer() });
      await callable(a, 'counter');
      const post = (path: string, body: object) => a.gateway.control<Json>(path, 'POST', JSON.stringify(body));
      const atA = await post('/api/v1/recordings?node=a', { server: 'counter' });
      const { id } = await post('/api/v1/recordings', { server: 'counter' });
      const client = await WireClient.open(a.serverUrl('counter'));
      await client.callText('count');
      const { calls } = await a.control<{ calls: Json[] }>('/api/v1/calls?filter=tool:count');
      await a.gateway.control(`/api/v1/recordings/${id}/stop`, 'POST');
      assert.deepEqual(await silentIn(a), ['', '', '', '', '']);

      const dataDir = ['--data-dir', join(a.gateway.folder, 'data')];
      const record = ['record', '--server', 'counter', '-o', 'ended.jsonl', ...dataDir];
      const recorder = startTrunkline(record, { cwd: a.gateway.folder });
      await until(() => recorder.err.includes('Ctrl-C'), 'the recording');

      b.kill('SIGSTOP');
      recorder.process.kill('SIGINT');
      // At once, while b still counts as present, and after it is lost.
      const stopping = post(`/api/v1/recordings/${id}/stop`, {}).then(String, String);
      assert.deepEqual(await silentIn(a), ['b', 'b', 'b', 'b', 'b']);
      assert.match(await stopping, /no answer from b; the other nodes have done it/);
      assert.equal(await recorder.exited, 0, recorder.err);
      assert.match(recorder.err, /\(no answer from b\)\n\(the gateway keeps it: trunkline record get /);
      assert.notEqual(readFileSync(join(a.gateway.folder, 'ended.jsonl'), 'utf8'), '');
      await until(async () => (await a.control<Json>('/api/v1/nodes')).nodes.length === 1, 'a to be alone');
      assert.deepEqual(await silentIn(a), ['b', 'b', 'b', 'b', 'b']);
      assert.equal((await a.control<Json>(`/api/v1/calls/${calls[0]!['id']}`)).id, calls[0]!['id']);

      const cli = (...args: string[]) => trunkline([...args, ...dataDir], { cwd: a.gateway.folder });
      for (const words of [['calls'], ['logs'], ['record', 'list'], ['record', 'get', id, '-o', 'part.jsonl']]) {
        const { code, err } = await cli(...words);
        assert.deepEqual([code, err], [0, '(no answer from b)\n'], words.join(' '));
      }
      const part = readFileSync(join(a.gateway.folder, 'part.jsonl'), 'utf8');
      for (const body of [{ recording: id }, { jsonl: part }]) {
        const refused = await post('/api/v1/replays', { ...body, server: 'counter' }).then(String, String);
        assert.match(refused, /parts of the recording are missing: b did not answer/);
      }
      // A recording of node a alone and one that began after b was lost have no missing part.
      const later = await post('/api/v1/recordings', { server: 'counter' });
      for (const whole of [atA['id'], later['id']]) {
        assert.deepEqual((await a.control<Json>(`/api/v1/recordings/${whole}`)).silent, []);
      }

      b.kill('SIGCONT');
      await until(async () => (await silentIn(a)).join('') === '', 'all to answer');
      await callable(a, 'counter');
      const replayed = await post('/api/v1/replays', { recording: id, server: 'counter' });
      assert.ok(replayed['replayed'] >= 1, JSON.stringify(replayed));
    },
  ));

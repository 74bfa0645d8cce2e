import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { KeyedServer } from '../fixtures/http/keyed.ts';
import { SECRET } from '../support/cluster-bench.ts';
import { onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, type NodeProcess, until } from '../support/cluster-processes.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import type { Json } from '../support/raw-http.ts';
import { startTrunkline } from '../support/run-trunkline.ts';
import { WireClient } from '../support/wire-client.ts';

const ONE = 'canary-one-of-the-cluster';
const TWO = 'canary-two-of-the-cluster';
const NEXT = 'the secret that comes after it, 32 bytes and more';

async function secret(node: NodeProcess, args: readonly string[], value = ''): Promise<string> {
  const { folder } = node.gateway;
  const all = ['secret', ...args, '--data-dir', join(folder, 'data')];
  const run = startTrunkline(all, { cwd: folder, input: true });
  run.process.stdin!.end(value);
  assert.equal(await run.exited, 0, run.err);
  return run.out;
}

async function reason(node: NodeProcess): Promise<string> {
  return (await node.control<Json>('/api/v1/servers/web')).reason ?? '';
}

test('check:I2 check:I7 a secret that is set at one node is used by all, sealed in PostgreSQL, over a change of the cluster’s secret', (t) =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      await using database = await PostgresServer.start();
      const server = await KeyedServer.start(`Bearer ${ONE}`);
      t.after(() => server.stop());
      const servers = {
        web: { type: 'http', url: server.url, headers: { Authorization: 'Bearer ${secret:api-key}' } },
      };
      const start = (name: string, secrets: object) =>
        nodes.node(name, servers, { cluster: { store: database.url, ...secrets } });
      let [a, b] = [await start('a', {}), await start('b', {})];
      for (const node of [a, b]) assert.match(await reason(node), /there is no secret api-key/);
      await secret(a, ['set', 'api-key'], ONE);
      const works = (node: NodeProcess) =>
        until(async () => {
          const client = await WireClient.open(node.serverUrl('web')).catch(() => null);
          return (await client?.callText('echo', { text: 'hi' }).catch(() => null)) === 'hi';
        }, `${node.name} to be let in`);
      await Promise.all([a, b].map(works));

      server.good.clear();
      server.good.add(`Bearer ${TWO}`);
      await secret(b, ['set', 'api-key'], TWO);
      const from = performance.now();
      await Promise.all([a, b].map(works));
      assert.ok(performance.now() - from < 15_000, `after ${performance.now() - from} ms`);

      for (const step of [
        { secret: SECRET, previousSecret: NEXT },
        { secret: NEXT, previousSecret: SECRET },
        { secret: NEXT },
      ]) {
        for (const old of [a, b]) {
          old.kill('SIGINT');
          await old.exited;
          const next = await start(old.name, step);
          if (old === a) a = next;
          else b = next;
          await works(next);
        }
        if ('previousSecret' in step) await until(() => /credentials_sealed_anew/.test(b.stderr), 'all to be sealed');
      }
      assert.match(await secret(a, ['list']), /^api-key {2}changed/);
      const client = new pg.Client({ connectionString: database.url });
      await client.connect();
      const { rows } = await client.query('SELECT collection, key, value FROM trunkline.records');
      await client.end();
      assert.ok(rows.some(({ collection, key }) => collection === 'secrets' && key === 'api-key'));
      const shown = [JSON.stringify(rows), ...nodes.nodes.map(({ stderr }) => stderr)].join('\n');
      for (const canary of [ONE, TWO]) assert.ok(!shown.includes(canary), 'a secret shows');
    },
  ));

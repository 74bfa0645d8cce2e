import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SECRET } from '../support/cluster-bench.ts';
import { onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, until } from '../support/cluster-processes.ts';
import { freePort } from '../support/free-port.ts';
import { PREVIOUS, unpackVersion } from '../support/other-version.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { trunkline } from '../support/run-trunkline.ts';

interface Found {
  readonly code: number | null;
  readonly ok: boolean;
  /** `step state: text`, with the remedy. */
  readonly cluster: readonly string[];
}
interface Step {
  readonly step: string;
  readonly state: string;
  readonly text: string;
  readonly fix: string | null;
}

/** The findings of the doctor on a machine that has the configuration and no gateway. */
async function doctor({ nats, folder }: ClusterProcesses, more: object = {}): Promise<Found> {
  const cwd = mkdtempSync(join(folder, 'doctor-'));
  const cluster = { nats: nats.url, node: 'here', secret: SECRET, ...more };
  writeFileSync(join(cwd, 'trunkline.json'), JSON.stringify({ mcpServers: {}, cluster }));
  return examined(['--port', '0', '--control-port', '0', '--data-dir', join(cwd, 'data')], cwd);
}

async function examined(args: readonly string[], cwd: string): Promise<Found> {
  const { code, out, err } = await trunkline(['doctor', '--json', ...args], { cwd });
  assert.equal(err, '');
  const { ok, machine, cluster } = JSON.parse(out) as { ok: boolean; machine: Step[]; cluster: Step[] };
  return {
    code,
    ok,
    cluster: [...machine, ...cluster].map(({ step, state, text, fix }) => `${step} ${state}: ${text}; ${fix}`),
  };
}

const has = ({ cluster }: Found, ...wanted: readonly RegExp[]) => {
  for (const one of wanted)
    assert.ok(
      cluster.some((line) => one.test(line)),
      `${one}\n${cluster.join('\n')}`,
    );
};

test('the doctor checks NATS, secret, nodes and store of the cluster, on a machine with or without a gateway', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      has(await doctor(nodes), /^nats ok: .*, nats-server 2\..* with JetStream/, /^nodes ok: none is heard/);
      const slow = 'const now = Date.now; Date.now = () => now() - 20_000;';
      const a = await nodes.node('a', {});
      const b = await nodes.node('b', { counter: counterServer() });
      await nodes.node('c', {}, {}, { env: { NODE_OPTIONS: `--import "data:text/javascript,${encodeURI(slow)}"` } });
      const well = await doctor(nodes);
      assert.deepEqual([well.code, well.ok], [0, true], well.cluster.join('\n'));
      has(well, /^secret ok: that of 3 nodes there/, /^nodes ok: .*a.*; null/, /^store ok: .* JetStream/);
      has(well, /^clocks warning: the clock of c is (19|20|21) s behind that of this machine; set the clocks .* NTP/);
      assert.ok(!well.cluster.some((line) => line.startsWith('versions')));

      const stranger = await doctor(nodes, { secret: 'the secret of another cluster, 32 bytes and more' });
      assert.deepEqual([stranger.code, stranger.ok], [4, false]);
      has(stranger, /^secret failed: 3 nodes there sign with another secret; give this node their cluster\.secret/);

      b.kill('SIGKILL');
      await until(
        async () => /node_lost/.test(JSON.stringify(await a.control('/api/v1/gateway'))),
        'the loss to be noticed',
      );
      const program = unpackVersion(PREVIOUS, (path, text) =>
        path === 'package.json' ? text.replace(/"version": "[^"]*"/, '"version": "0.0.9"') : text,
      );
      await nodes.node('d', {}, {}, { program });
      const { folder } = a.gateway;
      const own = await examined(['--data-dir', join(folder, 'data'), join(folder, 'trunkline.json')], folder);
      assert.equal(own.ok, false);
      has(own, /^nodes ok: (?=.*a)(?=.*c)(?=.*d)/, /^nodes failed: gone without leaving: b; restart them/);
      has(own, /^versions warning: (?=.*d 0\.0\.9).*; bring all nodes to one version/);

      await nodes.nats.kill();
      const cut = await doctor(nodes);
      assert.equal(cut.code, 4);
      has(cut, /^nats failed: nats:.*ECONNREFUSED.*; start nats-server -js there, or correct cluster\.nats/);
      await until(
        async () => /bus_lost/.test(JSON.stringify(await a.control('/api/v1/gateway'))),
        'the node to notice',
      );
      has(
        await examined(['--data-dir', join(folder, 'data'), join(folder, 'trunkline.json')], folder),
        /^bus failed: .*; check that node's connection to NATS/,
      );
      await nodes.nats.run();
    },
  ));

test('the doctor says whether PostgreSQL answers, and what to do about NATS without JetStream', () =>
  onCluster(
    () => ClusterProcesses.start({ jetStream: false }),
    async (nodes) => {
      await using database = await PostgresServer.start();
      const found = await doctor(nodes, { store: database.url });
      has(found, /^nats failed: .*JetStream.*; update nats-server, and start it with -js/);
      has(found, /^store ok: PostgreSQL 127\.0\.0\.1:\d+\/postgres answers/);
      const nowhere = `postgresql://trunkline@127.0.0.1:${await freePort()}/postgres`;
      has(await doctor(nodes, { store: nowhere }), /^data failed: .*ECONNREFUSED/);
    },
  ));

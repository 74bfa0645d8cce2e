import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { ClusterSettings } from '../../model/desired-state.ts';
import { type ConfigResult, loadConfig } from '../load-config.ts';

const folder = mkdtempSync(join(tmpdir(), 'trunkline-cluster-'));
after(() => rmSync(folder, { recursive: true }));

const SECRET = '0123456789abcdef0123456789abcdef';
const OLD = 'fedcba9876543210fedcba9876543210';
writeFileSync(join(folder, 'secret'), `${SECRET}\n`);
writeFileSync(join(folder, 'node.creds'), 'a JWT and a seed');

function load(cluster: object | null, env: Record<string, string> = {}, nats?: string): Promise<ConfigResult> {
  const config = {
    mcpServers: { memory: { command: 'm' } },
    agents: { ann: { key: 'key-of-agent-ann-0123' } },
    ...(cluster === null ? {} : { cluster }),
  };
  writeFileSync(join(folder, 'trunkline.json'), JSON.stringify(config));
  const overrides = nats === undefined ? {} : { nats };
  return loadConfig({ files: ['trunkline.json'], cwd: folder, env, overrides });
}

async function good(...args: Parameters<typeof load>): Promise<ClusterSettings> {
  const loaded = await load(...args);
  assert.ok(loaded.ok, JSON.stringify(loaded));
  assert.ok(loaded.state.cluster !== null);
  return loaded.state.cluster;
}

const revealed = ({ secrets }: ClusterSettings): string[] => secrets.map((secret) => secret.reveal());

test('check:H3 no cluster without the key; a secret in the environment does not make one', async () => {
  const loaded = await load(null, { TRUNKLINE_CLUSTER_SECRET: SECRET });
  assert.ok(loaded.ok && loaded.state.cluster === null);
});

test('check:H3 the secret comes from the file, the environment, or a file that the environment names', async () => {
  const nats = 'nats://127.0.0.1:4222';
  assert.deepEqual(revealed(await good({ nats, secret: SECRET, previousSecret: OLD })), [SECRET, OLD]);
  assert.deepEqual(revealed(await good({ nats, secret: '${file:secret}' })), [SECRET]);
  assert.deepEqual(revealed(await good({ nats }, { TRUNKLINE_CLUSTER_SECRET: SECRET })), [SECRET]);
  const env = { TRUNKLINE_CLUSTER_SECRET_FILE: join(folder, 'secret') };
  assert.deepEqual(revealed(await good({ nats }, env)), [SECRET]);
  assert.deepEqual(revealed(await good(null, { TRUNKLINE_CLUSTER_SECRET: SECRET }, nats)), [SECRET]);
});

test('check:H3 --nats overrides the file, several servers with commas', async () => {
  const cluster = { nats: 'nats://file:4222', secret: SECRET, node: 'one' };
  assert.deepEqual((await good(cluster)).servers, ['nats://file:4222']);
  const said = await good(cluster, {}, 'nats://a:4222, tls://b:4223');
  assert.deepEqual(said.servers, ['nats://a:4222', 'tls://b:4223']);
  assert.equal(said.node, 'one');
  assert.equal(said.publicSubjects, false);
  assert.equal(said.publicPrincipal, null);
});

test('check:H3 a node shows NATS one kind of credentials, written as keys or in the address', async () => {
  const shown = async (keys: object, nats = 'nats://127.0.0.1:4222') =>
    (await good({ nats, secret: SECRET, ...keys })).credentials;
  assert.equal(await shown({}), null);
  const user = await shown({ user: 'ann', password: 'p@ss' });
  assert.ok(user?.kind === 'user' && user.user === 'ann' && user.password.reveal() === 'p@ss');
  const inAddress = await shown({}, 'nats://ann:p%40ss@127.0.0.1:4222');
  assert.ok(inAddress?.kind === 'user' && inAddress.user === 'ann' && inAddress.password.reveal() === 'p@ss');
  const token = await shown({ token: 'tok' });
  assert.ok(token?.kind === 'token' && token.token.reveal() === 'tok');
  const tokenInAddress = await shown({}, 'nats://tok@127.0.0.1:4222');
  assert.ok(tokenInAddress?.kind === 'token' && tokenInAddress.token.reveal() === 'tok');
  const nkey = await shown({ nkey: 'SUABC' });
  assert.ok(nkey?.kind === 'nkey' && nkey.seed.reveal() === 'SUABC');
  const creds = await shown({ credentials: 'node.creds' });
  assert.ok(creds?.kind === 'creds' && creds.creds.reveal() === 'a JWT and a seed');
  const { servers, tls } = await good({ nats: 'tls://a:b@n:1', secret: SECRET, tls: { ca: 'ca.pem' } });
  assert.deepEqual(servers, ['tls://n:1']);
  assert.deepEqual(tls, { caFile: join(folder, 'ca.pem'), certFile: null, keyFile: null });
});

test('check:H3 unusable settings are refused, and no message has a secret', async () => {
  const nats = 'nats://127.0.0.1:4222';
  for (const [code, cluster] of [
    ['TL1701', { nats }],
    ['TL1701', { nats, secret: 'x'.repeat(31) }],
    ['TL1701', { nats, secret: SECRET, previousSecret: 'hunter-two' }],
    ['TL1702', { secret: SECRET }],
    ['TL1702', { nats: 'ws://127.0.0.1', secret: SECRET }],
    ['TL1702', { nats: 'http://u:hunter-two@127.0.0.1:4222', secret: SECRET }],
    ['TL1702', { nats, secret: SECRET, user: 'ann' }],
    ['TL1702', { nats, secret: SECRET, password: 'hunter-two' }],
    ['TL1702', { nats, secret: SECRET, token: 'hunter-two', nkey: 'hunter-two' }],
    ['TL1702', { nats, secret: SECRET, credentials: 'missing.creds' }],
    ['TL1703', { nats, secret: SECRET, publicPrincipal: 'nobody' }],
    ['TL1301', { nats, secret: SECRET, natz: 1 }],
  ] as const) {
    const loaded = await load(cluster);
    assert.ok(!loaded.ok, JSON.stringify(cluster));
    assert.ok(
      loaded.problems.some((problem) => problem.code === code),
      JSON.stringify(loaded.problems),
    );
    assert.ok(!JSON.stringify(loaded.problems).includes('hunter-two'), JSON.stringify(loaded.problems));
  }
});

test('check:H3 the scrubber knows every secret of a cluster', async () => {
  const cluster = { nats: 'nats://ann:pass-word-1@n:4222', secret: SECRET, previousSecret: OLD };
  const loaded = await load(cluster);
  assert.ok(loaded.ok);
  for (const secret of [SECRET, OLD, 'pass-word-1']) assert.ok(loaded.secrets.includes(secret), secret);
});

test('check:H3 files that a cluster names are watched, and must be regular ones: a pipe would block the gateway', async () => {
  const cluster = { nats: 'nats://127.0.0.1:4222', credentials: 'node.creds' };
  const loaded = await load(cluster, { TRUNKLINE_CLUSTER_SECRET_FILE: join(folder, 'secret') });
  const files = ['trunkline.json', 'secret', 'node.creds'];
  assert.deepEqual(
    loaded.watched,
    files.map((file) => join(folder, file)),
  );
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  const refused = await load({ ...cluster, secret: SECRET, credentials: 'pipe' });
  assert.ok(!refused.ok);
  assert.deepEqual(
    refused.problems.map(({ code, message }) => `${code} ${message}`),
    [`TL1702 cluster.credentials: ${join(folder, 'pipe')}: is not a regular file`],
  );
});

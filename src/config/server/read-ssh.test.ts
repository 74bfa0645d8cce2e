import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { SshSpec } from '../../model/server.ts';
import { loadConfig } from '../load-config.ts';

let folder = '';
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'tl-ssh-'));
});
after(() => rmSync(folder, { recursive: true }));

async function load(server: unknown) {
  writeFileSync(join(folder, 'trunkline.json'), JSON.stringify({ mcpServers: { one: server } }));
  const env = { HOME: '/home/me', WHERE: 'far.example' };
  return loadConfig({ files: ['trunkline.json'], cwd: folder, env, strict: true });
}

async function spec(ssh: unknown, more: object = {}) {
  const result = await load({ command: './server', ssh, ...more });
  assert.ok(result.ok, result.ok ? '' : result.problems.map(({ message }) => message).join());
  const { transport } = result.state.servers.get('one')!;
  assert.equal(transport.type, 'stdio');
  return transport;
}

const PLAIN: SshSpec = {
  host: 'h',
  user: null,
  port: 22,
  identityFile: null,
  knownHostsFile: null,
  hostKeys: 'accept-new',
  controlMaster: false,
};

test('S2.22 S2.23 a host as text or as an object; command and folder of that host are not changed', async () => {
  const plain = await spec('h');
  assert.deepEqual([plain.ssh, plain.command, plain.cwd], [PLAIN, './server', '']);
  const referred = await spec('me@${WHERE}:2222', { cwd: 'there' });
  assert.deepEqual(referred.ssh, { ...PLAIN, host: 'far.example', user: 'me', port: 2222 });
  assert.equal(referred.cwd, 'there');
  assert.deepEqual((await spec('[::1]:2222')).ssh, { ...PLAIN, host: '::1', port: 2222 });
  const long = { host: 'h', user: 'me', port: 1, identityFile: '~/k', knownHostsFile: 'known', hostKeys: 'yes' };
  assert.deepEqual((await spec({ ...long, controlMaster: true })).ssh, {
    ...long,
    identityFile: '/home/me/k',
    knownHostsFile: join(folder, 'known'),
    controlMaster: true,
  });
});

test('S2.23 a host that ssh could take for an option, or that is invalid, is refused', async () => {
  const refused = [
    '-oProxyCommand=x',
    'me@-h',
    '-l@h',
    'a b',
    'h:99999',
    'h:0',
    'h;x',
    { host: '-h' },
    { host: 'h', user: '-x' },
  ];
  for (const ssh of refused) {
    const result = await load({ command: 'm', ssh });
    assert.deepEqual(result.ok ? [] : result.problems.map(({ code }) => code), ['TL1412'], JSON.stringify(ssh));
  }
  const oddName = await load({ command: 'm', ssh: 'h', env: { 'a-b': '1' } });
  assert.deepEqual(oddName.ok ? [] : oddName.problems.map(({ code }) => code), ['TL1303']);
});

test('S2.23 S3.12 a change of the host needs a new connection', async () => {
  const digest = async (ssh: string) => {
    const result = await load({ command: 'm', ssh });
    return result.ok ? result.state.servers.get('one')!.connectionDigest : null;
  };
  assert.equal(await digest('h'), await digest('h:22'));
  assert.notEqual(await digest('h'), await digest('g'));
});

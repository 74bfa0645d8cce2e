import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { dataDirOf } from '../files/read-key.ts';
import { loadConfig } from '../load-config.ts';
import { fromHome } from './from-home.ts';

const ENV = { HOME: '/home/me' };

test('only a leading `~` or `~/` is the home folder of the user', () => {
  for (const [path, full] of [
    ['~', '/home/me'],
    ['~/', '/home/me'],
    ['~/a/b', '/home/me/a/b'],
    ['~you/a', '~you/a'],
    ['a/~/b', 'a/~/b'],
    ['/~', '/~'],
    ['', ''],
  ] as const)
    assert.equal(fromHome(path, ENV), full);
});

test('`~/` in a path of the settings is the home folder, as in `cwd`, also where one key is read alone', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tl-home-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'trunkline.json');
  const load = (content: object) => {
    writeFileSync(file, JSON.stringify(content));
    return loadConfig({ files: [file], cwd: folder, env: ENV, strict: true });
  };
  const tls = { cert: '~/c.pem', key: '~/k.pem' };
  const secret = '0123456789'.repeat(4);
  const mcpServers = { one: { command: 'x', cwd: '~/w' } };
  const cluster = { nats: 'nats://n:4222', secret, tls: { ca: '~/ca.pem' } };
  const loaded = await load({ data: { dir: '~/tl' }, tls, control: { tls }, cluster, mcpServers });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  const { dataDir, listen, control, cluster: joined, servers } = loaded.state;
  const files = { certFile: '/home/me/c.pem', keyFile: '/home/me/k.pem' };
  assert.deepEqual([dataDir, listen.tls, control.tls], ['/home/me/tl', files, { ...files, clientCaFile: null }]);
  assert.equal(joined?.tls?.caFile, '/home/me/ca.pem');
  assert.ok(JSON.stringify(servers.get('one')!.transport).includes('"/home/me/w"'));
  assert.equal(await dataDirOf(file, ENV), '/home/me/tl');

  const remote = { url: 'https://x.example/mcp', tls: { ca: '~/ca.pem' } };
  const missing = await load({
    cluster: { nats: 'nats://n:4222', secret, credentials: '~/x.creds' },
    mcpServers: { remote },
  });
  assert.ok(!missing.ok);
  const messages = missing.problems.map(({ message }) => message).join('\n');
  for (const path of ['/home/me/ca.pem', '/home/me/x.creds']) assert.ok(messages.includes(`: ${path}: `), messages);
});

import assert from 'node:assert/strict';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { KeyedServer } from '../fixtures/http/keyed.ts';
import type { Json } from '../support/raw-http.ts';
import { startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const ONE = 'canary-one-of-the-secrets';
const TWO = 'canary-two-of-the-secrets';

describe('secrets of definitions', { timeout: 120_000 }, () => {
  let server: KeyedServer;
  before(async () => {
    server = await KeyedServer.start(`Bearer ${ONE}`, `Bearer ${TWO}`);
  });
  after(() => server.stop());
  const web = () => ({ type: 'http', url: server.url, headers: { Authorization: 'Bearer ${secret:api-key}' } });

  test('security:14 check:I2 check:I7 a secret is set before the gateway runs, and no file, log, status or answer shows it', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-secrets-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    // Without an agent's key the configuration is refused, but `secret set` can set the key nevertheless.
    const agents = { me: { key: '${secret:agent}', servers: ['web'] } };
    const config = { $schema: 'trunkline', mcpServers: { web: web() }, agents };
    writeFileSync(join(folder, 'trunkline.json'), JSON.stringify(config));
    const run = commands(folder);
    const before = await run('check');
    assert.equal(before.code, 1);
    assert.match(
      before.err,
      /TL1208 {2}trunkline.json:1:\d+ {2}there is no secret api-key \(used by mcpServers\.web\./,
    );
    assert.match(before.err, /fix: trunkline secret set api-key/);

    const agentKey = `tl_${'k'.repeat(40)}`;
    for (const [name, value] of [
      ['api-key', ONE],
      ['agent', agentKey],
    ] as const) {
      const set = await piped(folder, ['secret', 'set', name], `${value}\n`);
      assert.equal(set.code, 0, set.err);
    }
    assert.match((await run('secret', 'list')).out, /^agent {4}changed 20\S+Z\napi-key {2}changed 20\S+Z\n$/);
    assert.deepEqual([(await run('check')).code, (await run('status', 'web')).code], [0, 4]);

    const gateway = await RunningGateway.start({ folder, config, args: ['--log-level', 'debug'] });
    t.after(() => gateway.stop());
    await gateway.ready('web');
    const client = await WireClient.open(gateway.mcpUrl, { headers: { authorization: `Bearer ${agentKey}` } });
    assert.ok((await client.toolNames()).some((name) => name.startsWith('web__')));
    const shown = [
      JSON.stringify(await gateway.control<Json>('/api/v1/servers/web')),
      JSON.stringify(await gateway.control<Json>('/api/v1/gateway')),
      JSON.stringify(await gateway.control<Json>('/api/v1/secrets')),
      (await run('secret', 'list', '--json')).out,
      (await run('status', 'web', '--json')).out,
      await gateway.metrics(),
      gateway.stderr,
    ];
    assert.equal(await gateway.stop(), 0);
    for (const file of globSync('**/*', { cwd: folder, withFileTypes: true })) {
      if (file.isFile()) shown.push(readFileSync(join(file.parentPath, file.name), 'latin1'));
    }
    for (const secret of [ONE, agentKey]) assert.ok(!shown.join('\n').includes(secret), 'a secret is shown');
    assert.ok(server.seen.includes(`Bearer ${ONE}`));
  });

  test('check:I2 a changed secret is in use at once, a removed one is not used any more', async (t) => {
    const gateway = await RunningGateway.start({ config: { mcpServers: { web: web() } } });
    t.after(() => gateway.dispose());
    const run = commands(gateway.folder);
    const set = (value: string) => piped(gateway.folder, ['secret', 'set', 'api-key', '--value-from-stdin'], value);
    assert.match((await gateway.control<Json>('/api/v1/servers/web')).reason, /there is no secret api-key.*TL1208/);
    assert.equal((await set(ONE)).code, 0);
    await gateway.ready('web');
    // Servers added while the gateway runs, one permanent and one temporary.
    const header = ['-H', 'Authorization: Bearer ${secret:api-key}'];
    assert.equal((await run('add', 'later', server.url, ...header)).code, 0);
    assert.equal((await run('add', 'passing', server.url, ...header, '--ttl', '1h')).code, 0);
    const wrong = await run('add', 'wrong', server.url, '-H', 'X-Key: ${secret:api_kei}');
    assert.equal(wrong.code, 1);
    assert.match(wrong.err, /TL1208 .*there is no secret api_kei.*there is api-key, did you mean that\?/s);
    await gateway.ready('web', 'later', 'passing');

    const calls = async (): Promise<readonly string[]> => {
      const from = server.seen.length;
      const client = await WireClient.open(gateway.mcpUrl);
      for (const name of ['web', 'later', 'passing']) await client.callText(`${name}__echo`, { text: name });
      return [...new Set(server.seen.slice(from))];
    };
    assert.deepEqual(await calls(), [`Bearer ${ONE}`]);
    assert.equal((await set(TWO)).code, 0);
    // The gateway still ends earlier sessions with the old secret.
    const from = performance.now();
    while ((await calls()).includes(`Bearer ${ONE}`)) assert.ok(performance.now() - from < 15_000);
    assert.deepEqual(await calls(), [`Bearer ${TWO}`]);

    assert.equal((await run('secret', 'rm', 'api-key')).code, 0);
    for (const name of ['web', 'later', 'passing']) {
      const { state, reason } = await gateway.control<Json>(`/api/v1/servers/${name}`);
      assert.deepEqual([name, state], [name, 'misconfigured']);
      assert.match(reason, /there is no secret api-key/);
    }
    const used = server.seen.length;
    const { message } = await (await WireClient.open(gateway.mcpUrl)).request('tools/call', {
      name: 'web__echo',
      arguments: { text: 'x' },
    });
    assert.ok(message.error !== undefined || message.result.isError);
    assert.equal(server.seen.length, used);
    assert.deepEqual((await run('secret', 'rm', 'api-key')).code, 1);
  });

  test('security:14 check:I7 the key changes with and without a running gateway; a secret that no key opens is reported', async (t) => {
    const gateway = await RunningGateway.start({ config: { mcpServers: { web: web() } } });
    t.after(() => gateway.dispose());
    const { folder } = gateway;
    const run = commands(folder);
    const key = () => readFileSync(join(folder, 'data', 'credentials.key'), 'utf8');
    assert.equal((await piped(folder, ['secret', 'set', 'api-key'], ONE)).code, 0);
    const keys = [key()];
    assert.match((await run('secret', 'rotate-key')).out, /sealed 1 records/);
    keys.push(key());
    await gateway.ready('web');
    await gateway.stop();
    assert.match((await run('secret', 'rotate-key')).out, /sealed 1 records/);
    keys.push(key());
    assert.equal(new Set(keys).size, 3);
    assert.ok(keys.every((text) => text.trim().length === 64));
    const second = await RunningGateway.start({ folder, config: { mcpServers: { web: web() } } });
    t.after(() => second.stop());
    await second.ready('web');
    await second.stop();

    writeFileSync(join(folder, 'data', 'credentials.key'), keys[0]!);
    assert.match((await run('secret', 'list')).out, /^api-key {2}cannot be opened.*trunkline secret set api-key\n$/);
    const third = await RunningGateway.start({ folder, config: { mcpServers: { web: web() } } });
    t.after(() => third.stop());
    assert.match((await third.control<Json>('/api/v1/servers/web')).reason, /the secret api-key cannot be opened/);
    const status = await run('status');
    assert.match(status.out, /the secret api-key cannot be opened.*trunkline secret set api-key/);
    assert.equal((await piped(folder, ['secret', 'set', 'api-key'], TWO)).code, 0);
    await third.ready('web');
  });

  test('check:I2 a gateway that a client started follows a secret that a command changes', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-secrets-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, 'trunkline.json'), JSON.stringify({ mcpServers: { web: web() } }));
    const client = startTrunkline(['stdio', '--data-dir', join(folder, 'data')], { cwd: folder, input: true });
    t.after(async () => {
      client.process.stdin!.end();
      await client.exited;
    });
    for (const value of [ONE, TWO]) {
      server.seen.length = 0;
      assert.equal((await piped(folder, ['secret', 'set', 'api-key'], value)).code, 0);
      const from = performance.now();
      while (!server.seen.includes(`Bearer ${value}`)) {
        // Far sooner than the full read every 30 s; the machine may be busy.
        assert.ok(performance.now() - from < 15_000, client.err);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  });

  test('security:8 check:I7 setting secrets needs servers:exec; data.dir and cluster.secret cannot use them', async (t) => {
    const gateway = await RunningGateway.start({ config: { mcpServers: {}, log: { level: 'info' } } });
    t.after(() => gateway.dispose());
    for (const [method, path, body] of [
      ['PUT', '/api/v1/secrets/k', '{"value":"x"}'],
      ['DELETE', '/api/v1/secrets/k', undefined],
      ['POST', '/api/v1/secret-key', undefined],
    ] as const) {
      await assert.rejects(gateway.control(path, method, body), /403 .*servers:exec/);
    }
    const definition = JSON.stringify({ name: 'x', url: 'https://example.com/', headers: { X: '${secret:k}' } });
    await assert.rejects(gateway.control('/api/v1/servers', 'POST', definition), /403 .*servers:exec/);
    const config = {
      mcpServers: {},
      data: { dir: '${secret:k}' },
      cluster: { nats: 'nats://x', secret: '${secret:k}' },
    };
    writeFileSync(join(gateway.folder, 'other.json'), JSON.stringify(config));
    const { err } = await trunkline(['check', 'other.json'], { cwd: gateway.folder });
    assert.match(err, /TL1208.*data\.dir is needed before any secret can be read/);
    assert.match(err, /TL1208.*cluster\.secret is needed before any secret can be read/);
  });
});

function commands(folder: string) {
  return (...args: string[]) => trunkline([...args, '--data-dir', join(folder, 'data')], { cwd: folder });
}

async function piped(folder: string, args: readonly string[], text: string) {
  const run = startTrunkline([...args, '--data-dir', join(folder, 'data')], { cwd: folder, input: true });
  run.process.stdin!.end(text);
  return { code: await run.exited, out: run.out, err: run.err };
}

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { send } from '../support/raw-http.ts';
import { ADA, ADA_KEY, Arena, BOB, BOB_KEY, type Headers, modern, rpc } from './arena.ts';

/**
 * Planted secrets (canaries): in the environment, headers, a file, agents' keys and a URL's query. They
 * have to reach the servers they are for, and may show up nowhere else.
 */

const CANARY = {
  env: 'canary-env-8f31c2',
  header: 'canary-header-77aa01',
  file: 'canary-file-19be42',
  query: 'canary-query-5d0c93',
  argument: 'canary-argument-e4417a',
};
const SECRETS = [...Object.values(CANARY), ADA_KEY, BOB_KEY];

let arena: Arena;
let folder: string;
/** Everything that clients and operators received. */
const reported: string[] = [];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'trunkline-canary-'));
  writeFileSync(join(folder, 'secret'), `${CANARY.file}\n`);
  const reference = (text: string) => `$\{${text}}`;
  arena = await Arena.start({
    agents: true,
    env: { CANARY_OF_TEST: CANARY.header },
    probeEnv: { CANARY_ENV: CANARY.env },
    remote: {
      headers: {
        Authorization: `Bearer ${reference('CANARY_OF_TEST')}`,
        'X-Api-Key': reference(`file:${join(folder, 'secret')}`),
      },
    },
    servers: {
      gone: { command: join(folder, 'no-such-program'), env: { CANARY_ENV: CANARY.env } },
      dies: {
        command: process.execPath,
        args: ['-e', 'console.error(process.env.CANARY_ENV); process.exit(9)'],
        env: { CANARY_ENV: CANARY.env },
      },
      closed: {
        url: `http://127.0.0.1:9/private/path?key=${CANARY.query}`,
        type: 'http',
        headers: { 'X-Key': CANARY.header },
      },
    },
    readyOnly: ['probe', 'remote'],
  });
});
after(async () => {
  await arena.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function say(body: string, headers: Headers, path = '/mcp'): Promise<string> {
  const { text, headers: said } = await arena.post(body, headers, path);
  reported.push(text, JSON.stringify(said));
  return text;
}

test('secrets reach the servers they belong to', async () => {
  const { body, headers } = modern('tools/call', { name: 'remote__echo', arguments: { text: 'x' } });
  await say(body, { ...headers, ...BOB });
  assert.ok(arena.reached().includes(CANARY.header));
  assert.ok(arena.reached().includes(CANARY.file));
});

test('errors reveal no paths, stacks, addresses and secrets to clients', async () => {
  const errors: string[] = [];
  for (const server of ['gone', 'dies', 'closed']) {
    const path = `/servers/${server}/mcp`;
    const init = rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {} });
    errors.push(await say(init, ADA, path));
    for (const [method, params] of [
      ['tools/call', { name: 'x', arguments: {} }],
      ['tools/list', {}],
      ['server/discover', {}],
    ] as const) {
      const own = modern(method, params);
      errors.push(await say(own.body, { ...own.headers, ...ADA }, path));
    }
    const call = { name: `${server}__x`, arguments: {} };
    const modernCall = modern('tools/call', call);
    errors.push(
      await say(rpc('tools/call', call), arena.victim),
      await say(modernCall.body, { ...modernCall.headers, ...ADA }),
    );
  }
  for (const text of errors) {
    assert.doesNotMatch(text, /\bat \S+ \(|node:internal|\.ts:\d|\/src\//, text);
    assert.ok(!text.includes(folder), `a path: ${text}`);
    assert.ok(!text.includes('/private/path'), `an address: ${text}`);
    assert.ok(!text.includes(process.execPath), `a program: ${text}`);
    for (const secret of SECRETS) assert.ok(!text.includes(secret), text);
  }
});

test("security:5 the gateway's output, logs and files have none of the secrets", async () => {
  // A server that prints and returns its secret: its answer may contain the secret, the log may not.
  await arena.post(rpc('tools/call', { name: 'probe__fail', arguments: { secret: CANARY.argument } }), arena.victim);
  for (const headers of [{ authorization: `Bearer ${ADA_KEY}x` }, { authorization: `Basic ${ADA_KEY}` }, {}]) {
    await say(rpc('initialize', {}), headers);
    await say(rpc('initialize', {}), headers, `/mcp?token=${ADA_KEY}`);
  }
  const bearer = { authorization: `Bearer ${arena.controlToken}` };
  const pages = ['/api/v1/gateway', '/api/v1/servers', '/api/v1/tools', '/api/v1/sessions', '/metrics', '/nowhere'];
  pages.push('/api/v1/logs?lines=100000');
  for (const name of ['probe', 'remote', 'gone', 'dies', 'closed']) pages.push(`/api/v1/servers/${name}`);
  for (const page of pages) reported.push((await arena.control(page, 'GET', bearer)).text);
  for (const name of ['gone', 'closed']) {
    reported.push((await arena.control(`/api/v1/servers/${name}/restart`, 'POST', bearer)).text);
  }
  for (const path of ['/livez', '/readyz', '/healthz', '/health'])
    reported.push((await send(arena.url(path), 'GET')).text);
  await delay(300);
  const kept = readdirSync(arena.dataFolder).map((name) =>
    readFileSync(join(arena.dataFolder, name)).toString('latin1'),
  );
  for (const secret of SECRETS) {
    for (const [what, text] of [
      ['sent', reported.join('\n')],
      ['logged', arena.gateway.stderr],
      ['kept', kept.join('\n')],
    ] as const) {
      const at = text.indexOf(secret);
      assert.equal(at, -1, `${secret} in what is ${what}: …${text.slice(Math.max(0, at - 200), at + 60)}`);
    }
  }
  assert.ok(arena.gateway.stderr.includes('[redacted]'), 'the server did print it');
  assert.ok(!arena.gateway.stderr.includes(arena.controlToken));
  await arena.alive();
});

test('a reload that fails, and one that rotates a key, show no secret either', async () => {
  const rotated = 'rotated-canary-key-0001';
  const file = JSON.parse(readFileSync(join(arena.gateway.folder, 'trunkline.json'), 'utf8'));
  arena.gateway.rewrite({ ...file, agents: { ...file.agents, ada: { key: rotated }, eve: { key: 'short-c' } } });
  await until(() => arena.gateway.stderr.includes('config_refused'));
  arena.gateway.rewrite({ ...file, agents: { ...file.agents, eve: { key: rotated } } });
  await until(() => arena.gateway.stderr.includes('config_applied'));
  const { body, headers } = modern('tools/list');
  await until(async () => (await arena.post(body, { ...headers, authorization: `Bearer ${rotated}` })).status === 200);
  for (const secret of [...SECRETS, rotated, 'short-c']) assert.ok(!arena.gateway.stderr.includes(secret), secret);
  await arena.alive();
});

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000;
  while (!(await condition())) {
    assert.ok(performance.now() < end, `did not happen within 30 s\n${arena.gateway.stderr.slice(-2_000)}`);
    await delay(50);
  }
}

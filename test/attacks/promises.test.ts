import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { commandOf, idOf, livingAmong, type ProcessId } from '../support/processes.ts';
import { open, send } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { Arena, type Headers, JSON_HEADERS, modern, rpc } from './arena.ts';

/** Statements of SECURITY.md about a whole gateway, tested from outside. */

/** A stdio server whose only tool returns its environment, prints it, and starts a process that outlives its parent. */
const TELLER = `
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
const grandchild = spawn(process.execPath, ['-e', 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000)'], { stdio: 'ignore' });
console.error('given', JSON.stringify(process.env));
const answers = {
  initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 't', version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'tell', inputSchema: { type: 'object' } }] }),
  'tools/call': () => ({ content: [{ type: 'text', text: JSON.stringify({ env: process.env, pids: [process.pid, grandchild.pid] }) }] }),
};
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: answers[method]?.() ?? {} }));
});`;

const OURS = {
  SSH_AUTH_SOCK: '/ssh/sock',
  my_PROXY: 'http://proxy',
  SSL_CERT_FILE: '/ca.pem',
  UV_DEFAULT_INDEX: 'http://index',
  EDITOR: 'vi',
  SOME_API_KEY: 'api-key-of-the-gateway',
  SOME_TOKEN: 'token-of-the-gateway',
  SOME_SECRET: 'secret-of-the-gateway',
  SOME_PASSWORD: 'password-of-the-gateway',
};
/** A value that is too short to mask, one that is harmless by name and value, and a secret that is masked. */
const DECLARED = { SHORT_TOKEN: 'ab1cd', MODE: 'production', LONG_TOKEN: 'declared-token-71' };

interface Reported {
  readonly env: Record<string, string>;
  readonly pids: readonly number[];
}

let gateway: RunningGateway;

before(async () => {
  const args = ['--input-type=module', '-e', TELLER];
  const server = (more: object) => ({ command: process.execPath, args, ...more });
  gateway = await RunningGateway.start({
    config: {
      mcpServers: { minimal: server({ env: DECLARED }), inheriting: server({ inheritEnv: true }) },
    },
    args: ['--log-level', 'debug'],
    env: OURS,
  });
  await gateway.ready();
});
after(() => gateway.dispose());

async function reported(server: string): Promise<Reported> {
  const { body, headers } = modern('tools/call', { name: 'tell', arguments: {} });
  const reply = await send(gateway.serverUrl(server), 'POST', { ...JSON_HEADERS, ...headers }, body);
  return JSON.parse(reply.json.result.content[0].text);
}

/** All that the gateway reports about itself and its servers. */
async function said(): Promise<string> {
  const [servers, logs] = await Promise.all([
    gateway.control('/api/v1/servers'),
    gateway.control('/api/v1/logs?limit=1000'),
  ]);
  return `${JSON.stringify(servers)}\n${JSON.stringify(logs)}\n${gateway.stderr}`;
}

test('security:2 no event stream of either listener opens for a foreign Host or Origin', async () => {
  const arena = await Arena.start();
  try {
    const { body, headers } = modern('subscriptions/listen', { notifications: { toolsListChanged: true } });
    const ours = { ...JSON_HEADERS, ...arena.victim, accept: 'text/event-stream' };
    const control = { authorization: `Bearer ${arena.controlToken}` };
    const streams: readonly [url: string, method: string, headers: Headers, body?: string][] = [
      [arena.url('/mcp'), 'GET', ours],
      [arena.url('/sse'), 'GET', ours],
      [arena.url('/servers/probe/sse'), 'GET', ours],
      [arena.url('/mcp'), 'POST', { ...JSON_HEADERS, ...headers }, body],
      [`${arena.gateway.controlUrl}/api/v1/events`, 'GET', control],
      [`${arena.gateway.controlUrl}/api/v1/logs/stream`, 'GET', control],
    ];
    for (const [url, method, usual, text] of streams) {
      const ask = async (more: Headers): Promise<[status: number, stream: boolean]> => {
        const { response, request } = await open(url, method, { ...usual, ...more }, text);
        request.destroy();
        return [response.statusCode!, String(response.headers['content-type']).startsWith('text/event-stream')];
      };
      assert.deepEqual(await ask({}), [200, true], `${method} ${url}`);
      for (const foreign of [{ host: 'evil.example' }, { origin: 'https://evil.example' }] as Headers[]) {
        assert.deepEqual(await ask(foreign), [403, false], `${method} ${url} ${JSON.stringify(foreign)}`);
      }
    }
  } finally {
    await arena.stop();
  }
});

test('security:4 without agents every local process is the owner of a session and can use it, and only while it lasts', async () => {
  const arena = await Arena.start();
  try {
    const call = rpc('tools/call', { name: 'probe__echo', arguments: { mark: 'another process' } });
    const program = `
      const [url, headers, body] = JSON.parse(process.argv[1]);
      const reply = await fetch(url, { method: 'POST', headers, body });
      console.log(reply.status, await reply.text());`;
    const asked = JSON.stringify([arena.url('/mcp'), { ...JSON_HEADERS, ...arena.victim }, call]);
    const reply = execFileSync(process.execPath, ['--input-type=module', '-e', program, asked], { encoding: 'utf8' });
    assert.match(reply, /^200 .*another process/s);
    assert.equal((await send(arena.url('/mcp'), 'DELETE', arena.victim)).status, 204);
    assert.equal((await arena.post(call, arena.victim)).status, 404);
  } finally {
    await arena.stop();
  }
});

test('security:9 without agents too, no credential that a client sends reaches a server', async () => {
  const arena = await Arena.start();
  try {
    const sent = { authorization: 'Bearer canary-bearer', cookie: 'a=canary-cookie', 'x-api-key': 'canary-key' };
    for (const name of ['probe__echo', 'remote__echo']) {
      const { body, headers } = modern('tools/call', { name, arguments: { text: 'arrived' } });
      const path = '/mcp?access_token=canary-query';
      assert.equal((await arena.post(body, { ...headers, ...sent }, path)).status, 200);
      const call = rpc('tools/call', { name, arguments: { text: 'arrived' } });
      assert.equal((await arena.post(call, { ...arena.victim, ...sent }, path)).status, 200);
    }
    const reached = arena.reached();
    assert.equal(reached.split('arrived').length, 5);
    assert.doesNotMatch(reached, /canary-/);
    assert.ok(!reached.includes(arena.victim['mcp-session-id']!));
  } finally {
    await arena.stop();
  }
});

test('security:5 security:6 the output of a server is masked except for short and harmless values; a result is unchanged', async () => {
  const { env } = await reported('minimal');
  for (const [name, value] of Object.entries(DECLARED)) assert.equal(env[name], value, `the result has ${name}`);
  const shown = await said();
  assert.ok(!shown.includes(DECLARED.LONG_TOKEN), 'a secret in a log or status');
  assert.match(shown, /LONG_TOKEN[^,]{1,8}\[redacted\]/, 'it was printed');
  assert.match(shown, /SHORT_TOKEN[^,]{1,8}ab1cd/, 'too short to be searched for');
  assert.match(shown, /MODE[^,]{1,8}production/, 'harmless by name and value');
});

test('security:10 a server has the minimal environment and what it declares; inheritEnv passes all but names with three words', async () => {
  const minimal = (await reported('minimal')).env;
  const always = ['SSH_AUTH_SOCK', 'my_PROXY', 'SSL_CERT_FILE', 'UV_DEFAULT_INDEX'] as const;
  for (const name of always) assert.equal(minimal[name], OURS[name], name);
  for (const name of Object.keys(OURS))
    if (!(always as readonly string[]).includes(name)) assert.ok(!(name in minimal), name);
  const inheriting = (await reported('inheriting')).env;
  for (const [name, value] of Object.entries(OURS)) {
    if (/TOKEN|SECRET|PASSWORD/.test(name)) assert.ok(!(name in inheriting), name);
    else assert.equal(inheriting[name], value, name);
  }
});

test('security:10 trunkline -- command passes all but names with three words', async () => {
  const file = join(gateway.folder, 'told');
  const tell = `require('node:fs').writeFileSync(${JSON.stringify(file)}, JSON.stringify(process.env))`;
  const bin = resolve(import.meta.dirname, '../../bin/trunkline.js');
  const args = [bin, '--port', '0', '--control-port', '0', '--data-dir', join(gateway.folder, 'other')];
  const child = spawn(process.execPath, [...args, '--', process.execPath, '-e', tell], {
    env: { ...process.env, ...OURS },
    stdio: 'ignore',
  });
  const exited = once(child, 'exit');
  try {
    const end = performance.now() + 30_000;
    let text = '';
    while (!text.endsWith('}') && performance.now() < end) {
      await sleep(50);
      try {
        text = readFileSync(file, 'utf8');
      } catch {}
    }
    const env = JSON.parse(text) as Record<string, string>;
    for (const [name, value] of Object.entries(OURS)) {
      assert.equal(env[name], /TOKEN|SECRET|PASSWORD/.test(name) ? undefined : value, name);
    }
  } finally {
    child.kill();
    await exited;
  }
});

test('security:11 a server leads its own process group, which does not survive a killed gateway', async () => {
  const { pids } = await reported('minimal');
  const groups = pids.map((pid) => groupOf(pid));
  assert.deepEqual(groups, [pids[0], pids[0]]);
  assert.notEqual(groupOf(gateway.process.pid!), pids[0]);
  const all = [...pids, ...(await reported('inheriting')).pids];
  const processes = all.map((pid) => idOf(pid)).filter((id): id is ProcessId => id !== null);
  assert.equal(processes.length, 4);
  gateway.process.kill('SIGKILL');
  await gateway.exited;
  const end = performance.now() + 15_000;
  while (livingAmong(processes).length > 0 && performance.now() < end) await sleep(50);
  assert.deepEqual(livingAmong(processes).map(commandOf), []);
});

function groupOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]);
}

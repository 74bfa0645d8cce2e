import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const UNSET = 'TRUNKLINE_TEST_ACCESS_TOKEN';
const NEAR = 'TRUNKLINE_TEST_PERSONAL_ACCESS_TOKEN';
const SECRET = 'value-that-is-shown-nowhere-1';
const good = manySided('good');
const gh = { url: 'https://127.0.0.1:9/mcp', headers: { Authorization: `Bearer \${${UNSET}}` } };
const folder = mkdtempSync(join(tmpdir(), 'trunkline-misconfigured-'));
const file = join(folder, 'trunkline.json');
after(() => rmSync(folder, { recursive: true, force: true }));

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 15_000;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`${what} did not come`);
    await sleep(20);
  }
}

test('check:A1 check:A10 a server with mistakes is misconfigured with the reason; the others start, and calls to it are NOT_SENT', async (t) => {
  const both = { command: 'x', url: 'http://127.0.0.1:9/' };
  const config = { mcpServers: { good, gh, both, file: { command: 'x', env: { A: '${file:./none}' } } } };
  const gateway = await RunningGateway.start({ config, env: { [NEAR]: SECRET } });
  t.after(() => gateway.dispose());
  await gateway.ready('good');
  const { servers } = await gateway.control<{ servers: Json[] }>('/api/v1/servers');
  const states = Object.fromEntries(servers.map(({ name, state }) => [name, state]));
  assert.deepEqual(states, { good: 'running', gh: 'misconfigured', both: 'misconfigured', file: 'misconfigured' });
  const { reason, compat, endpoint, command } = servers.find(({ name }) => name === 'gh');
  assert.match(reason, new RegExp(`^environment variable ${UNSET} is not set \\(used by mcpServers\\.gh\\.headers`));
  assert.match(reason, new RegExp(`; ${NEAR} is set, did you mean that\\?.*; fix: export ${UNSET}=`));
  assert.deepEqual([compat.error, endpoint, command], [reason, null, null]);
  const { configProblem } = await gateway.control<{ configProblem: string }>('/api/v1/gateway');
  for (const code of ['TL1203', 'TL1306', 'TL1205']) assert.match(configProblem, new RegExp(`^${code} `, 'm'));

  for (const era of ['stateful', 'stateless'] as const) {
    const client = new WireClient(gateway.mcpUrl, era);
    const single = new WireClient(gateway.serverUrl('gh'), era);
    if (era === 'stateful') await client.initialize();
    assert.equal(await client.callText('good__echo', { text: era }), era);
    const params = { name: 'x', arguments: {} };
    const answers = [
      await client.request('tools/call', { ...params, name: 'gh__x' }),
      ...(era === 'stateful'
        ? [
            await single.request('initialize', {
              protocolVersion: '2025-11-25',
              capabilities: {},
              clientInfo: { name: 'c', version: '1' },
            }),
          ]
        : [await single.request('tools/list'), await single.request('tools/call', params)]),
    ];
    for (const { message } of answers) {
      // A failed tool call is a result that the model can read; everything else is an error.
      const failed = message.error?.data ?? message.result._meta['trunkline/error'];
      const text = message.error?.message ?? message.result.content[0].text;
      assert.match(text, new RegExp(`gh'? is misconfigured: environment variable ${UNSET} is not set`));
      assert.deepEqual([failed.outcome, failed.retryable], ['NOT_SENT', false]);
    }
  }
  await gateway.control('/api/v1/servers/gh/restart', 'POST');
  const { servers: later } = await gateway.control<{ servers: Json[] }>('/api/v1/servers');
  assert.equal(later.find(({ name }) => name === 'gh').state, 'misconfigured');

  const again = await trunkline(['restart', 'gh', '--data-dir', join(gateway.folder, 'data')], { cwd: gateway.folder });
  assert.equal(again.code, 1, again.out);
  assert.match(again.err, new RegExp(`gh is still misconfigured: environment variable ${UNSET} is not set`));
  const shown = await trunkline(['status', '--data-dir', join(gateway.folder, 'data')], { cwd: gateway.folder });
  assert.match(shown.out, /^1 of 4 servers ready/);
  assert.match(shown.out, /^ +gh +misconfigured +environment variable/m);
  assert.match(shown.out, /TL1203 +trunkline\.json:1:\d+/);
  assert.ok(!(shown.out + gateway.stderr + JSON.stringify(later)).includes(SECRET));

  // The corrected server starts. After another mistake it runs on unchanged, and the gateway reports the mistake.
  const who = manySided('gh');
  gateway.rewrite({ mcpServers: { good, gh: who } });
  const client = await WireClient.open(gateway.mcpUrl);
  await until('the corrected server', async () => (await client.toolNames()).includes('gh__who'));
  const pid = await client.callText('gh__who');
  gateway.rewrite({ mcpServers: { good, gh: { ...who, timeoutMs: -1 }, more: manySided('more') } });
  await until('the further server', async () => (await client.toolNames()).includes('more__echo'));
  assert.equal(await client.callText('gh__who'), pid);
  assert.match((await gateway.control<{ configProblem: string }>('/api/v1/gateway')).configProblem, /gh\.timeoutMs/);
  assert.match(gateway.stderr, /"event":"server_misconfigured"/);
  await gateway.ready();
  const status = (...words: string[]) =>
    trunkline(['status', ...words, '--data-dir', join(gateway.folder, 'data')], { cwd: gateway.folder });
  const row = /gh +ready +\d+ tools .*runs an earlier definition; the new one has a mistake: .*trunkline\.json:1:\d+/;
  for (const words of [[], ['gh']]) {
    const { code, out } = await status(...words);
    assert.match(out, row);
    assert.equal(code, 4, out);
  }
  assert.match((await status()).out, /^3 of 3 servers ready/);
  gateway.rewrite({ mcpServers: { good, gh: who, more: manySided('more') } });
  await until('the end of the mistake', async () => (await status()).code === 0);
  assert.doesNotMatch((await status('gh')).out, /earlier definition/);
});

test('check:A10 check, --strict and TRUNKLINE_STRICT refuse the whole file, with position and remedy', async () => {
  writeFileSync(file, JSON.stringify({ mcpServers: { good, gh } }, null, 2));
  const reported = new RegExp(
    `^(?:trunkline: )?TL1203 +trunkline\\.json:\\d+:\\d+ +environment variable ${UNSET} is not set`,
    'm',
  );
  const ports = ['--port', '0', '--control-port', '0', '--data-dir', join(folder, 'data')];
  const runs = [
    await trunkline(['check'], { cwd: folder }),
    await trunkline([...ports, '--strict'], { cwd: folder }),
    await trunkline(ports, { cwd: folder, env: { TRUNKLINE_STRICT: '1' } }),
  ];
  for (const { code, err } of runs) {
    assert.match(err, reported);
    assert.equal(code, 1);
  }
  const run = startTrunkline(ports, { cwd: folder });
  await said(run, /^ {2}Servers/m);
  assert.match(
    run.out,
    new RegExp(`^  Problem  TL1203 [^]*\\| +"Authorization": "Bearer \\$\\{${UNSET}\\}"[^]*fix: export ${UNSET}=`, 'm'),
  );
  assert.match(run.out, /^ +good +ready/m);
  assert.match(run.out, /^ +gh +misconfigured/m);
  assert.match(run.out, /Servers +1 of 2 ready/);
  run.process.kill('SIGTERM');
  assert.equal(await run.exited, 0);
});

test('check:A10 over stdio the other servers run, too', async (t) => {
  writeFileSync(file, JSON.stringify({ mcpServers: { good, gh } }, null, 2));
  const run = startTrunkline(['stdio', '--data-dir', join(folder, 'data')], { cwd: folder, input: true });
  t.after(() => run.process.kill());
  const send = (message: object) => run.process.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const clientInfo = { name: 'c', version: '1' };
  send({ id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo } });
  await said(run, '"id":1');
  send({ method: 'notifications/initialized' });
  send({ id: 2, method: 'tools/call', params: { name: 'good__echo', arguments: { text: 'over stdio' } } });
  send({ id: 3, method: 'tools/call', params: { name: 'gh__x', arguments: {} } });
  await said(run, 'over stdio');
  await said(run, /"id":3,.*gh is misconfigured: environment variable/);
});

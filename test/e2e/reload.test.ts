import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { manySided } from '../support/many-sided.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

async function until(what: string, holds: () => Promise<boolean> | boolean, waitMs = 10_000): Promise<number> {
  const from = performance.now();
  while (!(await holds())) {
    if (performance.now() - from > waitMs) throw new Error(`${what} did not come`);
    await sleep(20);
  }
  return performance.now() - from;
}

test('fault:F37 servers follow the file; unchanged ones keep process, session and calls; clients of both eras are notified', async (t) => {
  const stays = manySided('stays');
  const gateway = await RunningGateway.start({ config: { mcpServers: { stays, goes: manySided('goes') } } });
  t.after(() => gateway.dispose());
  await gateway.ready();
  const client = await WireClient.open(gateway.mcpUrl);
  const modern = new WireClient(gateway.mcpUrl, 'stateless');
  await client.toolNames();
  await client.call('stays__count');
  const pid = await client.callText('stays__who');
  const goner = (JSON.parse(await client.callText('goes__who')) as { pid: number }).pid;
  const stream = await client.listen();
  const listen = await modern.listening({ toolsListChanged: true });
  const inFlight = client.callText('stays__sleep', { ms: 2_500 });

  gateway.rewrite({ mcpServers: { stays, comes: manySided('comes') } });
  await until('the new server', async () => (await modern.toolNames()).includes('comes__echo'));
  assert.ok(!(await modern.toolNames()).some((name) => name.startsWith('goes__')));
  // The session may first be notified that its state at the removed server is lost.
  // A client that has the new list already would not be notified of it.
  while ((await stream.message()).method !== 'notifications/tools/list_changed');
  assert.ok(!(await client.toolNames()).some((name) => name.startsWith('goes__')));
  assert.equal((await listen.message()).method, 'notifications/tools/list_changed');
  const gone = await client.request('tools/call', { name: 'goes__echo', arguments: {} });
  assert.match(JSON.stringify(gone.message), /goes__echo/);
  assert.equal((await new WireClient(gateway.serverUrl('goes'), 'stateless').request('tools/list')).status, 404);
  assert.equal(await client.callText('comes__echo', { text: 'new' }), 'new');
  assert.equal(await inFlight, 'slept');
  assert.equal(await client.callText('stays__who'), pid);
  assert.equal(await client.callText('stays__count'), '2');
  await until('the end of the removed process', () => {
    try {
      return !process.kill(goner, 0);
    } catch {
      return true;
    }
  });

  const file = join(gateway.folder, 'trunkline.json');
  writeFileSync(file, '{ "mcpServers": { "stays": { "comand": "x" } } ');
  const facts = () => gateway.control<{ configProblem: string | null }>('/api/v1/gateway');
  await until('the problem', async () => (await facts()).configProblem !== null);
  assert.match((await facts()).configProblem!, /trunkline\.json:1:\d+/);
  assert.match(gateway.stderr, /"event":"config_refused"/);
  const status = (...args: string[]) =>
    trunkline(['status', ...args, '--data-dir', join(gateway.folder, 'data')], { cwd: gateway.folder });
  const refused = await status();
  assert.deepEqual([refused.code, /^2 of 2 servers ready/.test(refused.out)], [4, true], refused.out);
  assert.match(JSON.parse((await status('--json')).out).configProblem, /trunkline\.json:1:\d+/);
  assert.match(await gateway.metrics(), /trunkline_config_reloads_total\{result="refused"\} [1-9]/);
  assert.equal(await client.callText('stays__who'), pid);
  assert.equal(await client.callText('comes__echo', { text: 'still' }), 'still');
  gateway.rewrite({ mcpServers: { stays, comes: manySided('comes', {}, { excludeTools: ['grow'] }) } });
  await until('the mended file', async () => (await facts()).configProblem === null);
  await until('a status without a problem', async () => (await status()).code === 0);
  await until('the filter', async () => !(await modern.toolNames()).includes('comes__grow'));
  assert.equal(await client.callText('stays__who'), pid);
  stream.drop();
  listen.drop();
});

test('S2.28 check:E1 agents: own servers only, on every path, and changed while the gateway runs', async (t) => {
  const keys = { ada: 'key-of-ada-0123456789', bob: 'key-of-bob-0123456789' };
  const mcpServers = { a: manySided('a'), b: manySided('b') };
  const config = (servers: string[], more: object = {}) => ({
    mcpServers,
    agents: { ada: { key: keys.ada, servers }, bob: { key: keys.bob } },
    ...more,
  });
  const gateway = await RunningGateway.start({ config: config(['a']) });
  t.after(() => gateway.dispose());
  await gateway.ready();
  const as = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
  const servers = async (client: WireClient) => [
    ...new Set((await client.toolNames()).map((name) => name.split('__')[0])),
  ];
  const ada = await WireClient.open(gateway.mcpUrl, as(keys.ada));
  const adaModern = new WireClient(gateway.mcpUrl, 'stateless', as(keys.ada));
  const bob = await WireClient.open(gateway.mcpUrl, as(keys.bob));
  for (const client of [ada, adaModern]) {
    assert.deepEqual(await servers(client), ['a']);
    assert.equal((await client.result('prompts/list')).prompts.length, 1);
    assert.equal((await client.result('resources/list')).resources.length, 1);
    assert.equal((await client.result('resources/templates/list')).resourceTemplates.length, 1);
    const read = await client.request('resources/read', { uri: 'side://b/doc' });
    assert.ok(!JSON.stringify(read.message).includes('read by b'));
    for (const [method, params] of [
      ['tools/call', { name: 'b__echo', arguments: {} }],
      ['prompts/get', { name: 'b__greet', arguments: {} }],
      ['completion/complete', { ref: { type: 'ref/prompt', name: 'b__greet' }, argument: { name: 'who', value: 'x' } }],
    ] as const) {
      const { message } = await client.request(method, params);
      assert.ok(message.error !== undefined || message.result.isError === true, `${client.era} ${method}`);
    }
  }
  assert.deepEqual((await servers(bob)).sort(), ['a', 'b']);
  const elsewhere = new WireClient(gateway.serverUrl('b'), 'stateless', as(keys.ada));
  assert.ok((await elsewhere.request('tools/list')).status >= 400);
  const sse = gateway.mcpUrl.replace(/mcp$/, 'sse');
  for (const [url, method] of [
    [gateway.mcpUrl, 'POST'],
    [sse, 'GET'],
    [gateway.serverUrl('a'), 'POST'],
  ] as const) {
    for (const headers of [{}, as('key-that-nobody-has').headers, { 'x-agent-name': 'ada' }]) {
      const body = method === 'POST' ? '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}' : null;
      const init = { method, headers: { 'content-type': 'application/json', ...headers }, body };
      const response = await fetch(url, init);
      assert.equal(response.status, 401, url);
      assert.match(response.headers.get('www-authenticate') ?? '', /^Bearer/);
      await response.body?.cancel();
    }
  }
  const pid = await bob.callText('b__who');

  gateway.rewrite(config(['b']));
  await until('the other right', async () => (await servers(ada))[0] === 'b');
  assert.equal((await ada.call('b__echo', { text: 'x' })).content[0].text, 'x');
  const { message } = await ada.request('tools/call', { name: 'a__echo', arguments: {} });
  assert.ok(message.error !== undefined || message.result.isError === true);
  assert.equal(await bob.callText('b__who'), pid);

  gateway.rewrite({ ...config(['b']), unknownCallers: 'allow' });
  const stranger = new WireClient(gateway.mcpUrl, 'stateless');
  await until('the compatibility mode', async () => (await stranger.request('tools/list')).status === 200);
  assert.deepEqual((await servers(stranger)).sort(), ['a', 'b']);
  assert.deepEqual(await servers(adaModern), ['b']);

  gateway.rewrite({ mcpServers, agents: { bob: { key: keys.bob } } });
  await until('the end of an agent', async () => (await ada.request('tools/list')).status === 401);
  assert.equal(await bob.callText('b__who'), pid);
});

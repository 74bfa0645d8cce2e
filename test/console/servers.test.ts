import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { counterServer, until } from '../support/cluster-processes.ts';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

const registry = resolve(import.meta.dirname, '../fixtures/registry');
const { memory, everything } = FOUR_SERVERS.mcpServers;
let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({
    config: {
      registry,
      mcpServers: {
        memory: { ...memory, env: { API_KEY: 'key-of-memory-1' } },
        broken: { command: 'no-such-program' },
        counter: counterServer(),
        doubled: { ...everything, replicas: 2, isolation: 'shared' },
      },
    },
  });
  await gateway.ready('memory');
  browser = await ConsoleBrowser.open(gateway, '#/servers');
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

test('the page of a server that cannot start shows why, where it is defined and what was tried', async () => {
  const { page } = browser;
  await page.getByRole('link', { name: 'broken' }).click();
  await page.getByText('no-such-program').first().waitFor();
  const failed = page.getByRole('region', { name: 'Last failed start' });
  await failed.getByText('trunkline doctor broken').waitFor();
  await failed
    .getByText(/no-such-program/)
    .first()
    .waitFor();
  await page
    .getByText(/trunkline\.json:\d+/)
    .first()
    .waitFor();
  await page.getByRole('region', { name: 'History' }).getByText('starting').first().waitFor();
  await page.getByText(/^Defined in \/.*trunkline\.json:\d+; delete it there to remove the server\.$/).waitFor();
});

test('restart, suspend and resume have their effect, which arrives without a reload; secrets are masked', async () => {
  const { page } = browser;
  await browser.visit('#/servers/memory');
  const heading = page.getByRole('heading', { level: 1 });
  await heading.getByText('running').waitFor();
  await page.getByText(/^\d+ tools?, \d+ prompts?, \d+ resources?; /).waitFor();
  const values = page.getByRole('table', { name: 'Values' });
  for (const [key, value, where] of [
    ['env.API_KEY', '"[redacted]"', /trunkline\.json:\d+$/],
    ['retry', '"never"', /^default$/],
  ] as const) {
    const row = values.getByRole('row').filter({ hasText: key });
    await row.getByText(value).waitFor();
    await row.getByText(where).waitFor();
  }
  assert.ok(!(await page.content()).includes('key-of-memory-1'));
  const pid = (await gateway.control<Json>('/api/v1/servers/memory')).connections[0].pid;
  await page.getByRole('button', { name: 'Restart', exact: true }).click();
  await page.getByText('memory was restarted').waitFor();
  assert.notEqual((await gateway.control<Json>('/api/v1/servers/memory')).connections[0].pid, pid);
  await page.getByRole('button', { name: 'Suspend', exact: true }).click();
  await page.getByRole('button', { name: 'Confirm: Suspend', exact: true }).click();
  await heading.getByText('suspended').waitFor();
  assert.equal((await gateway.control<Json>('/api/v1/servers/memory')).state, 'suspended');
  await page.getByRole('button', { name: 'Resume', exact: true }).click();
  await heading.getByText('running').waitFor();
  await browser.assertAccessible();
  await browser.screenshots('server');
  await browser.visit('#/servers/doubled');
  await page.getByRole('table', { name: 'Replicas' }).getByRole('row').nth(2).getByText('running').waitFor();
  await browser.visit('#/servers');
  await page.getByRole('grid', { name: 'Servers' }).getByText('memory').waitFor();
  await browser.assertAccessible();
  await browser.screenshots('servers');
});

test('connections to a server, and what they are used for, arrive without a reload', async () => {
  const { page } = browser;
  const first = await WireClient.open(gateway.serverUrl('counter'));
  await first.callText('count');
  await browser.visit('#/servers/counter');
  const rows = page.getByRole('table', { name: 'Connections' }).getByRole('row');
  await rows.nth(1).waitFor();
  const before = await rows.count();
  const second = await WireClient.open(gateway.serverUrl('counter'));
  await second.callText('count');
  const row = rows.nth(before);
  await row.waitFor();
  await row.getByText(/^\d+ MiB$/).waitFor();
  const requests = async (): Promise<string> => (await row.getByRole('cell').allTextContents())[5]!;
  const used = await requests();
  await second.callText('count');
  await until(async () => (await requests()) !== used, 'another request in the row');
  // Its CPU use between two readings.
  await row.getByText(/^\d+ %$/).waitFor();
  const headers = { 'mcp-session-id': second.sessionId!, 'mcp-protocol-version': second.revision };
  assert.ok((await fetch(second.url, { method: 'DELETE', headers })).ok);
  await row.waitFor({ state: 'detached' });
});

test('invalid input is refused with the place of the fault, and nothing of it is added', async () => {
  const { page } = browser;
  await browser.visit('#/servers?add=1');
  const alert = page.getByRole('alert');
  const refused = async (press: string, shown: RegExp): Promise<void> => {
    await page.getByRole('button', { name: press, exact: true }).click();
    await alert.getByText(shown).waitFor();
    await alert.getByRole('heading', { name: 'Nothing was added' }).waitFor();
  };
  const command = page.getByLabel('URL, or command with its arguments');
  for (const [text, shown] of [
    ['htps://example.com/mcp', /TL1408\s+1:1 .*has the scheme "htps"/],
    ['https//example.com/mcp', /lacks its scheme.*write http:\/\/ or https:\/\//s],
    ['node -e 1 --root="my dir', /this quote is never closed.*1 \| node -e 1 --root="my dir.*\^/s],
  ] as const) {
    await command.fill(text);
    await refused('Add', shown);
  }
  const document = page.getByLabel(/Or the text of a client's file/);
  for (const [text, shown] of [
    ['{"mcpServers": {}}', /no servers are defined here/],
    ['{"mcpServers": [{"command": "node"}]}', /mcpServers\[0\] needs a "name"/],
    ['{"mcpServers": {"a6": "node x"}}', /mcpServers\.a6 must be a map of keys/],
    ['null', /TL1005/],
    ['{"base": {"command": "x"}, "memory": {"command": "x"}}', /memory exists already in .*trunkline\.json/],
  ] as const) {
    await page.getByLabel(/Exec token/).fill(gateway.token('exec'));
    await document.fill(text);
    await refused('Add all of it', shown);
  }
  await browser.assertAccessible();
  const { servers } = await gateway.control<Json>('/api/v1/servers');
  assert.deepEqual(servers.map(({ name }: Json) => name).sort(), ['broken', 'counter', 'doubled', 'memory']);
  await page.getByLabel(/Exec token/).fill('');
});

test('several servers are added in order; after a failure the button adds the rest; the page names omitted servers', async () => {
  const { page } = browser;
  await browser.visit('#/servers?add=1');
  const urls = { one: 'https://one.example/mcp', two: 'https://two.example/mcp', three: 'https://three.example/mcp' };
  const text = Object.entries(urls).map(([name, url]) => `"${name}": { "url": "${url}" },`);
  await page.getByLabel(/Or the text of a client's file/).fill(`{ // mine\n${text.join('\n')} }`);
  const add = page.getByRole('button', { name: 'Add all of it' });
  // Another client adds the server a moment earlier, so that the gateway refuses it.
  await page.route('**/api/v1/servers', async (route) => {
    if (route.request().method() === 'POST' && (route.request().postDataJSON() as Json).name === 'two')
      await gateway.control('/api/v1/servers', 'POST', JSON.stringify({ name: 'two', url: urls.two }));
    await route.continue();
  });
  await add.click();
  await page.getByRole('heading', { name: 'Only one was added' }).waitFor();
  await page.getByText('Pressing the button again adds two, three.').waitFor();
  await page.unroute('**/api/v1/servers');
  await add.click();
  await page.getByText('Added three; one, two are there already').waitFor();
  await browser.visit('#/servers?add=1');
  const back = { url: gateway.mcpUrl };
  const mcpServers = { trunkline: back, 'My four': { url: 'https://four.example/mcp', colour: 'red' } };
  await page.getByLabel(/Or the text of a client's file/).fill(JSON.stringify({ mcpServers }));
  await add.click();
  const told = page.getByRole('status').filter({ has: page.getByRole('heading', { name: 'Added My-four' }) });
  await told.getByText(/mcpServers\.trunkline is this gateway, and is left out/).waitFor();
  await told.getByText(/the server "My four" is called "My-four" here/).waitFor();
  await told.getByText(/colour is not a known key/).waitFor();
  await browser.assertAccessible();
  await gateway.control('/api/v1/servers/My-four', 'DELETE');
  for (const name of Object.keys(urls)) await gateway.control(`/api/v1/servers/${name}`, 'DELETE');
});

test('a command with quotes and without a name is added as it was meant, and shown for a terminal', async () => {
  const { page } = browser;
  await browser.visit('#/servers?add=1');
  const line = page.getByLabel('URL, or command with its arguments');
  for (const [text, shown] of [
    [String.raw`A="x y" run $HOME a\\b '|'`, String.raw`trunkline add -e 'A=x y' -- run '$HOME' 'a\b' '|'`],
    ['claude mcp add mem -e A=b -- npx -y mem', 'trunkline add -e A=b mem -- npx -y mem'],
    ['https://x.example/mcp?a=1&b=2', "trunkline add 'https://x.example/mcp?a=1&b=2'"],
  ] as const) {
    await line.fill(text);
    await page.getByText(shown, { exact: true }).waitFor();
  }
  await line.fill(`no-such-program --root="my dir" --x='a b'`);
  await page.getByText(`trunkline add -- no-such-program '--root=my dir' '--x=a b'`).waitFor();
  await page.getByLabel(/Exec token/).fill(gateway.token('exec'));
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('heading', { level: 1 }).getByText('no-such-program').waitFor();
  const added = await gateway.control<Json>('/api/v1/servers/no-such-program');
  assert.deepEqual([added.command, added.args], ['no-such-program', ['--root=my dir', '--x=a b']]);
  await gateway.control('/api/v1/servers/no-such-program', 'DELETE');
  await browser.visit('#/servers?add=1');
  await page.getByLabel(/Exec token/).fill('');
});

test('a pasted server needs the exec token, is added with it, shows its log, and is removed', async () => {
  const { page } = browser;
  await browser.visit('#/servers?add=1');
  const document = page.getByLabel(/Or the text of a client's file/);
  const add = page.getByRole('button', { name: 'Add all of it' });
  // All is checked before any is added.
  const remote = { url: 'https://tickets.example/mcp' };
  await document.fill(JSON.stringify({ mcpServers: { remote, added: everything } }));
  await add.click();
  await page.getByRole('heading', { name: 'Nothing was added' }).waitFor();
  await page.getByText(/^added runs the command/).waitFor();
  const token = page.getByLabel(/Exec token/);
  const fault = page.locator('#exec-fault');
  await fault.getByText(/takes the right servers:exec: paste here what the file exec\.token has/).waitFor();
  assert.equal(await token.getAttribute('aria-invalid'), 'true');
  assert.equal(await token.evaluate((field) => field.matches(':focus')), true);
  await token.fill('not-the-token');
  await add.click();
  await fault.getByText(/This is not the exec token of this gateway: paste here/).waitFor();
  await browser.assertAccessible();
  await document.fill(JSON.stringify({ added: everything }));
  await page.getByLabel(/Exec token/).fill(readFileSync(join(gateway.folder, 'data', 'exec.token'), 'utf8').trim());
  await add.click();
  const heading = page.getByRole('heading', { level: 1 });
  await heading.getByText('running').waitFor();
  await page
    .getByLabel('Log of the server')
    .getByText('server_stderr')
    .or(page.getByText('process_started'))
    .first()
    .waitFor();
  await page.getByRole('button', { name: 'Remove', exact: true }).click();
  await page.getByRole('button', { name: 'Confirm: Remove', exact: true }).click();
  await page.getByText('added is removed').waitFor();
  const { servers } = await gateway.control<Json>('/api/v1/servers');
  assert.ok(!servers.some(({ name }: Json) => name === 'added'));
});

test('a server of the registry is found, says what it needs, and is added with it; its secret is in no definition', async () => {
  const { page } = browser;
  await browser.visit('#/servers?add=1');
  const registry = page.getByRole('region', { name: 'From the registry' });
  const words = registry.getByLabel(/words that a server of the registry has/);
  await words.fill('nothing-like-it');
  await registry.getByRole('button', { name: 'Search', exact: true }).click();
  await registry.getByText(/No server of .* has these words/).waitFor();
  await words.fill('bundle');
  await registry.getByRole('button', { name: 'Search', exact: true }).click();
  await registry.getByRole('row').getByText('com.example/bundle').click();
  const failure = registry.getByRole('alert');
  await failure.getByRole('heading', { name: 'com.example/bundle@1.0.0 cannot be added here' }).waitFor();
  await failure.getByText('trunkline add com.example/bundle --via mcpb').waitFor();
  await words.fill('nowhere');
  await registry.getByRole('button', { name: 'Search', exact: true }).click();
  await registry.getByRole('row').getByText('com.example/nowhere').click();
  await failure.getByRole('heading', { name: 'com.example/nowhere@1.0.0 cannot be added here' }).waitFor();
  await failure
    .getByText(/the cargo package nowhere@1\.0\.0: only packages of npm, pypi, oci, nuget and mcpb/)
    .waitFor();
  await failure
    .getByText(/the npm package nowhere@1\.0\.0: it speaks streamable-http.*http:\/\/localhost:3000/)
    .waitFor();
  await words.fill('graph');
  await registry.getByRole('button', { name: 'Search', exact: true }).click();
  await registry.getByRole('row').getByText('com.example/graph').click();
  const form = registry.getByRole('form', { name: 'com.example/graph' });
  await form.getByLabel('MEMORY_FILE_PATH').fill(join(gateway.folder, 'graph.json'));
  await form.getByLabel('API_KEY').fill('key-of-graph-1');
  await form.getByLabel('MODE').selectOption('safe');
  await form
    .getByText(
      /trunkline add com\.example\/graph@1\.0\.0 --via npm --as graph --set MEMORY_FILE_PATH=.* --set 'API_KEY=…'/,
    )
    .waitFor();
  await browser.assertAccessible();
  await page.evaluate(() => scrollTo(0, 0));
  await browser.screenshots('add-server');
  await page.getByLabel(/Exec token/).fill('wrong');
  await form.getByRole('button', { name: 'Add graph', exact: true }).click();
  await page.getByRole('heading', { name: 'Nothing was added' }).waitFor();
  await page.getByLabel(/Exec token/).fill(readFileSync(join(gateway.folder, 'data', 'exec.token'), 'utf8').trim());
  await form.getByRole('button', { name: 'Add graph', exact: true }).click();
  await page.getByRole('heading', { level: 1 }).getByText('graph').waitFor();
  const values = page.getByRole('table', { name: 'Values' });
  await values.getByRole('row').filter({ hasText: 'env.MODE' }).getByText('"safe"').waitFor();
  const { secrets } = await gateway.control<Json>('/api/v1/secrets');
  assert.deepEqual(
    secrets.map(({ name }: Json) => name),
    ['graph-api_key'],
  );
  assert.ok(!(await page.content()).includes('key-of-graph-1'));
  await gateway.control('/api/v1/servers/graph', 'DELETE');
});

test('where a server is refused, the secrets that were set for it are removed again, and only those', async () => {
  const { page } = browser;
  await browser.visit('#/servers?add=1');
  await page.getByLabel(/Exec token/).fill(gateway.token('exec'));
  const names = async () => (await gateway.control<Json>('/api/v1/secrets')).secrets.map(({ name }: Json) => name);
  const before = await names();
  const registry = page.getByRole('region', { name: 'From the registry' });
  await registry.getByLabel(/words that a server of the registry has/).fill('anywhere');
  await registry.getByRole('button', { name: 'Search', exact: true }).click();
  await registry.getByRole('row').getByText('com.example/anywhere').click();
  const form = registry.getByRole('form', { name: 'com.example/anywhere' });
  const base = form.getByLabel('BASE', { exact: true });
  const add = form.getByRole('button', { name: /^Add / });
  await form.getByLabel('X-Key').fill('a-key-of-anywhere');
  const answered = page.waitForResponse((one) => one.url().includes('/secrets/anywhere-x-key'));
  await base.fill('nowhere at all');
  await add.click();
  assert.equal((await answered).status(), 200);
  await page.getByRole('alert').getByText('TL1408').waitFor();
  assert.deepEqual(await names(), before);
  await base.fill('https://anywhere.example');
  await add.click();
  await page.getByRole('heading', { level: 1 }).getByText('anywhere').waitFor();
  assert.deepEqual((await names()).sort(), [...before, 'anywhere-x-key'].sort());
  await gateway.control('/api/v1/servers/anywhere', 'DELETE');
});

test('a pasted file asks for its inputs; its secrets go to the store of secrets', async () => {
  const { page } = browser;
  await browser.visit('#/servers?add=1');
  await page.getByLabel(/Exec token/).fill(gateway.token('exec'));
  const env = { KEY: '${input:key}', API_KEY: 'a-plain-key-1' };
  const servers = { asks: { ...everything, env }, waits: { command: 'x', args: ['${input:place}'] } };
  const inputs = [
    { id: 'key', type: 'promptString', description: 'A key of asks', password: true },
    { id: 'place', type: 'promptString', description: 'A place' },
  ];
  await page.getByLabel(/Or the text of a client's file/).fill(JSON.stringify({ inputs, servers }));
  const add = page.getByRole('button', { name: 'Add all of it' });
  await add.click();
  await page.getByLabel('key', { exact: true }).fill('a-secret-of-asks');
  await browser.assertAccessible();
  await add.click();
  const told = page.getByRole('status').filter({ has: page.getByRole('heading', { name: 'Added asks' }) });
  await told.getByText(/servers\.waits is left out: its input "place" has no value/).waitFor();
  const { secrets } = await gateway.control<Json>('/api/v1/secrets');
  const names = secrets.map(({ name }: Json) => name).filter((name: string) => name.startsWith('asks'));
  assert.deepEqual(names.sort(), ['asks-api_key', 'asks-key']);
  await gateway.control('/api/v1/servers/asks', 'DELETE');
  await page.getByLabel(/Exec token/).fill('');
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
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

test('a server that cannot start says why, where it is defined and what was tried', async () => {
  const { page } = browser;
  await page.getByRole('link', { name: 'broken' }).click();
  await page.getByText('no-such-program').first().waitFor();
  await page
    .getByText(/trunkline\.json:\d+/)
    .first()
    .waitFor();
  await page.getByRole('region', { name: 'History' }).getByText('starting').first().waitFor();
});

test('restart, suspend and resume have their effect, which arrives without a reload; secrets are masked', async () => {
  const { page } = browser;
  await browser.visit('#/servers/memory');
  const heading = page.getByRole('heading', { level: 1 });
  await heading.getByText('running').waitFor();
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
  await page.getByRole('button', { name: 'Suspend: sure?', exact: true }).click();
  await heading.getByText('suspended').waitFor();
  assert.equal((await gateway.control<Json>('/api/v1/servers/memory')).state, 'suspended');
  await page.getByRole('button', { name: 'Resume', exact: true }).click();
  await heading.getByText('running').waitFor();
  await browser.assertAccessible();
  await browser.visit('#/servers');
  await page.getByRole('table', { name: 'Servers' }).getByText('memory').waitFor();
  await browser.assertAccessible();
  await browser.screenshots('servers');
});

test('a pasted server needs the exec token, is added with it, shows its log, and is removed', async () => {
  const { page } = browser;
  await browser.visit('#/servers?add=1');
  await page.getByLabel("Or the JSON of a client's file").fill(JSON.stringify({ mcpServers: { added: everything } }));
  await page.getByRole('button', { name: 'Add all of it' }).click();
  await page.getByRole('heading', { name: 'Nothing was added' }).waitFor();
  // What was added before the one that is refused stays, and the page says so.
  const remote = { url: 'https://tickets.example/mcp' };
  await page
    .getByLabel("Or the JSON of a client's file")
    .fill(JSON.stringify({ mcpServers: { remote, added: everything } }));
  await page.getByRole('button', { name: 'Add all of it' }).click();
  await page.getByRole('heading', { name: 'Only remote was added' }).waitFor();
  await gateway.control('/api/v1/servers/remote', 'DELETE');
  await page.getByLabel("Or the JSON of a client's file").fill(JSON.stringify({ mcpServers: { added: everything } }));
  await page.getByLabel(/Exec token/).fill(readFileSync(join(gateway.folder, 'data', 'exec.token'), 'utf8').trim());
  await page.getByRole('button', { name: 'Add all of it' }).click();
  const heading = page.getByRole('heading', { level: 1 });
  await heading.getByText('running').waitFor();
  await page
    .getByLabel('Log of the server')
    .getByText('server_stderr')
    .or(page.getByText('process_started'))
    .first()
    .waitFor();
  await page.getByRole('button', { name: 'Remove', exact: true }).click();
  await page.getByRole('button', { name: 'Remove: sure?', exact: true }).click();
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
  await registry.getByText('trunkline add com.example/bundle --via mcpb').waitFor();
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

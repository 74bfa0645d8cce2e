import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { manySided } from '../support/many-sided.ts';
import { runProgram } from '../support/run-program.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

const KEY = 'a-key-of-an-agent-1';
let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({
    config: {
      $schema: 'trunkline',
      mcpServers: { many: manySided('many'), 'many-changed': manySided('many', { CHANGED: '1' }) },
      agents: { taper: { key: KEY, servers: ['many', 'many-changed'] } },
    },
  });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway, '#/sessions');
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

async function connected(name: string): Promise<Client> {
  const client = new Client({ name, version: '7' }, { capabilities: { elicitation: {} } });
  const requestInit = { headers: { authorization: `Bearer ${KEY}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.serverUrl('many')), { requestInit }) as never);
  return client;
}

test('a session appears with its details when it is opened, and is ended from the page', async () => {
  const { page } = browser;
  await page.getByText('No open sessions').waitFor();
  await page.evaluate(() => Object.assign(window, { stayed: true }));
  const client = await connected('shown');
  await client.callTool({ name: 'echo', arguments: { text: 'x' } });
  await page.getByRole('link', { name: 'shown 7' }).click();
  const panel = page.getByRole('region', { name: /^Session [0-9a-f]{12}$/ });
  await panel.getByText('{"elicitation":{}}').waitFor();
  await panel.getByText('in use at this node').waitFor();
  await panel
    .getByRole('definition')
    .filter({ hasText: /^many$/ })
    .waitFor();
  await panel.getByText(/^trunkline sessions end [0-9a-f]{12}$/).waitFor();
  await panel.getByRole('button', { name: 'End session' }).click();
  await panel.getByRole('button', { name: 'Confirm: End session' }).click();
  await page.getByText('No open sessions').waitFor();
  for (const [address, words] of [
    ['#/sessions/0123456789ab', 'The session 0123456789ab is not there'],
    ['#/tasks/none', 'The task none is not there'],
    ['#/timeline/none', 'The call none is not there'],
  ] as const) {
    await page.evaluate((to) => location.assign(to), address);
    await page.getByRole('status').getByText(words).waitFor();
  }
  await page.evaluate(() => location.assign('#/sessions'));
  await page.getByText('No open sessions').waitFor();
  await assert.rejects(client.callTool({ name: 'echo', arguments: { text: 'x' } }));
  await client.close();
  assert.equal(await page.evaluate(() => 'stayed' in window), true);
});

test('a list that lacks sessions, as in a large cluster, says how many there are', async () => {
  const { page } = browser;
  const client = await connected('listed');
  await page.route('**/api/v1/sessions', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), total: 40_000 } });
  });
  await browser.visit('#/tasks');
  await browser.visit('#/sessions');
  await page.getByText('1 of 40000 sessions').waitFor();
  await page.unroute('**/api/v1/sessions');
  await (client.transport as unknown as StreamableHTTPClientTransport).terminateSession();
  await client.close();
  await browser.visit('#/tasks');
  await browser.visit('#/sessions');
  await page.getByText('No open sessions').waitFor();
});

test('a page that cannot read the recordings says so, and not that nothing is recorded', async () => {
  const { page } = browser;
  await page.route('**/api/v1/recordings', (route) => route.fulfill({ status: 503, json: { error: {} } }));
  await page.reload();
  await page.getByRole('heading', { name: 'The recordings could not be read' }).waitFor();
  // The stream has begun, and the list was read for that.
  await page.waitForTimeout(1_500);
  assert.equal(await page.getByText('Nothing is recorded').count(), 0);
  await page.unroute('**/api/v1/recordings');
  await page.getByRole('alert').getByRole('button', { name: 'Try again' }).click();
  await page.getByText('Nothing is recorded').waitFor();
});

test('calls of a session reset its idle time on the page, and the page reads no lists for them', async () => {
  const { page } = browser;
  const client = await connected('busy');
  await client.callTool({ name: 'echo', arguments: { text: 'x' } });
  const row = page.getByRole('row', { name: /busy 7/ });
  await row.waitFor();
  await page.waitForTimeout(3_000);
  const other = await connected('other');
  await row.getByText(/^[3-9] s$/).waitFor();
  // Waits until the page has read the changes by the new session.
  await page.waitForTimeout(1_500);
  const asked: string[] = [];
  page.on('request', (request) => void asked.push(new URL(request.url()).pathname));
  for (let i = 0; i < 10; i++) {
    await client.callTool({ name: 'echo', arguments: { text: 'x' } });
    await page.waitForTimeout(200);
  }
  await row.getByText(/^[01] s$/).waitFor();
  page.removeAllListeners('request');
  assert.deepEqual(asked, []);
  await client.close();
  await other.close();
});

test('record, stop, download, replay against another version with exactly the change, delete', async () => {
  const { page } = browser;
  const client = await connected('taped');
  await client.callTool({ name: 'echo', arguments: { text: 'before' } });
  await page.getByRole('link', { name: 'taped 7' }).click();
  await page.getByRole('button', { name: 'Record it' }).click();
  const recording = page.getByRole('article', { name: /^Recording/ });
  await recording.getByText('waiting').waitFor();
  await page.waitForTimeout(1_500);
  const asked: string[] = [];
  page.on('request', (request) => void asked.push(new URL(request.url()).pathname));
  await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
  await recording.getByText(/4 messages, .*many/).waitFor();
  page.removeAllListeners('request');
  assert.ok(!asked.includes('/api/v1/recordings'), 'the open event stream has its messages');
  await recording.getByRole('button', { name: 'Stop', exact: true }).click();
  await recording.getByText('stopped: it was stopped').waitFor();
  const downloading = page.waitForEvent('download');
  await recording.getByRole('button', { name: 'Download' }).click();
  const jsonl = readFileSync(await (await downloading).path(), 'utf8');
  assert.ok(jsonl.includes('"hello"') && !jsonl.includes('"before"'));
  await recording.getByRole('button', { name: 'Replay against…' }).click();
  await recording.getByRole('button', { name: 'Replay', exact: true }).click();
  await recording.getByText(/1 answers of many compared: no difference/).waitFor();
  await recording.getByLabel(/^Replay against/).selectOption('many-changed');
  await recording.getByText(/trunkline replay .* --server many-changed$/).waitFor();
  await recording.getByRole('button', { name: 'Replay', exact: true }).click();
  await recording.getByText(/compared: 1 difference/).waitFor();
  await recording.getByText('− "hello"').waitFor();
  await recording.getByText('+ "HELLO"').waitFor();
  await recording.getByText(/^trunkline replay \S+\.jsonl --server many-changed --test \S+\.test\.mjs$/).waitFor();
  const cwd = gateway.folder;
  writeFileSync(join(cwd, 'it.jsonl'), jsonl);
  // Node finds the SDK from here.
  const file = resolve(import.meta.dirname, `../../.console-${process.pid}.test.mjs`);
  try {
    for (const [server, code, said] of [
      ['many', 0, /tools\/call echo/],
      ['many-changed', 1, /HELLO/],
    ] as const) {
      await recording.getByLabel(/^Replay against/).selectOption(server);
      const written = page.waitForEvent('download');
      await recording.getByRole('button', { name: 'Write a test' }).click();
      const test = await written;
      assert.match(test.suggestedFilename(), /^\w+\.test\.mjs$/);
      copyFileSync(await test.path(), file);
      const words = ['replay', 'it.jsonl', '--server', server, '--test', 'it.test.mjs', '--data-dir', 'data'];
      const wrote = await trunkline(words, { cwd });
      assert.equal(wrote.code, 0, wrote.err);
      assert.equal(readFileSync(join(cwd, 'it.test.mjs'), 'utf8'), readFileSync(file, 'utf8'));
      const ran = await runProgram([process.execPath, '--test', file], {
        env: { ...process.env, NODE_TEST_CONTEXT: undefined, TRUNKLINE_KEY: KEY },
      });
      assert.deepEqual([ran.code, said.test(ran.out)], [code, true], ran.out + ran.err);
    }
    const alone = ['replay', 'it.jsonl', '--server', 'many', '--test', 'it.test.mjs', '--data-dir', 'none'];
    assert.match((await trunkline(alone, { cwd })).err, /a test needs --command, --url or a gateway that runs/);
  } finally {
    rmSync(file, { force: true });
  }
  await browser.assertAccessible();
  await browser.screenshots('sessions');
  await recording.getByLabel('Places that may differ').fill('$.result.content');
  await recording.getByRole('button', { name: 'Replay', exact: true }).click();
  await recording.getByText(/compared: no difference/).waitFor();
  await recording.getByRole('button', { name: 'Delete', exact: true }).click();
  await recording.getByRole('button', { name: 'Confirm: Delete' }).click();
  await page.getByText('Nothing is recorded').waitFor();
  const { recordings } = await gateway.control<{ recordings: unknown[] }>('/api/v1/recordings');
  assert.deepEqual(recordings, []);
  await client.close();
});

test('the next session of a client is recorded by name, and errors say what to do', async () => {
  const { page } = browser;
  await page.getByLabel('Next session of client').fill('tomorrow');
  await page.getByText('trunkline record --client tomorrow -o session.jsonl').waitFor();
  await page.getByRole('button', { name: 'Record', exact: true }).click();
  const recording = page.getByRole('article', { name: /^Recording/ });
  await recording.getByText('waiting').waitFor();
  const client = await connected('tomorrow');
  await client.callTool({ name: 'echo', arguments: { text: 'x' } });
  await recording.getByText(/messages, .* many/).waitFor();
  await client.close();
});

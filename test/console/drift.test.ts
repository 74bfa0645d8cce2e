import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

const FIXTURE = resolve(import.meta.dirname, '../fixtures/drift/changing.mjs');
const folder = mkdtempSync(join(tmpdir(), 'trunkline-drift-page-'));
const file = join(folder, 'offer.json');

/** Sets the tools that the server lists from now on. */
function offer(description: string, required: readonly string[] = [], read = 'reads a message'): void {
  const inputSchema = { type: 'object', properties: { to: { type: 'string' } }, required };
  const tools = [
    { name: 'send', description, inputSchema },
    { name: 'read', description: read, inputSchema: { type: 'object' } },
  ];
  writeFileSync(`${file}.new`, JSON.stringify({ tools }));
  renameSync(`${file}.new`, file);
}

let gateway: RunningGateway;
let browser: ConsoleBrowser;
let wire: WireClient;
before(async () => {
  offer('sends a message to your team');
  const mail = { command: process.execPath, args: [FIXTURE, file], drift: 'hold' };
  gateway = await RunningGateway.start({ config: { mcpServers: { mail } } });
  await gateway.ready();
  wire = await WireClient.open(gateway.mcpUrl);
  await wire.callText('mail__send');
  browser = await ConsoleBrowser.open(gateway, '#/drift');
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const drift = () => gateway.control<Json>('/api/v1/servers/mail/drift');

test('a change is shown with its words, its severity and the callers of the tool, and is approved as shown', async () => {
  const { page } = browser;
  await page.getByText('Nothing waits for a decision').waitFor();
  offer('sends a message to everybody', ['to']);
  const waiting = page.getByRole('article', { name: 'send, changed' });
  await waiting.waitFor({ timeout: 30_000 });
  assert.match((await waiting.textContent())!, /breaking for callers/);
  assert.equal((await waiting.locator('ins').first().textContent())?.trim(), 'everybody');
  assert.match((await waiting.locator('del').first().textContent())!, /your team/);
  await waiting.getByText(/Called lately by wire 1 as anonymous \(1, /).waitFor();
  const { digest } = (await drift()).waiting[0];
  assert.match((await waiting.textContent())!, new RegExp(digest));
  await waiting.getByText('trunkline drift approve mail send').waitFor();
  await browser.assertAccessible();
  await browser.screenshots('drift');
  await waiting.getByRole('button', { name: 'Approve as shown', exact: true }).click();
  await page.getByText('Approved send of mail').waitFor();
  await page.getByText('Nothing waits for a decision').waitFor();
  assert.deepEqual((await drift()).waiting, []);
});

test('a definition can be blocked, and the history shows the decisions', async () => {
  const { page } = browser;
  offer('sends a message to nobody', ['to']);
  const waiting = page.getByRole('article', { name: 'send, changed' });
  await waiting.waitFor({ timeout: 30_000 });
  await waiting.getByRole('button', { name: 'Block', exact: true }).click();
  await waiting.getByRole('button', { name: 'Confirm: Block', exact: true }).click();
  await page.getByRole('article', { name: 'send, blocked' }).first().waitFor();
  assert.equal((await drift()).waiting[0].change, 'blocked');
  await browser.visit('#/drift/mail');
  const history = page.getByRole('region', { name: 'History' });
  await history.getByText('blocked').first().waitFor();
  assert.match((await history.textContent())!, /approved.*by operator/);
});

test('a decision about a definition that has changed since is refused with a message', async () => {
  const { page } = browser;
  const waiting = page.getByRole('article', { name: 'send, blocked' }).first();
  await waiting.waitFor();
  await page.route('**/drift/approve', async (route) => {
    const body = JSON.parse(route.request().postData()!) as Json;
    body.definitions[0].digest = 'f'.repeat(64);
    await route.continue({ postData: JSON.stringify(body) });
  });
  await waiting.getByRole('button', { name: 'Approve as shown', exact: true }).click();
  await page.locator('.toast.tone-bad').waitFor();
  await page.unroute('**/drift/approve');
  assert.equal((await drift()).waiting[0].change, 'blocked');
});

test('all waiting definitions of a server are approved at once', async () => {
  const { page } = browser;
  offer('sends a message to some', ['to'], 'reads a message aloud');
  const read = page.getByRole('article', { name: 'read, changed' });
  await read.waitFor({ timeout: 30_000 });
  await read.getByText('No client has called it lately').waitFor();
  const asked: string[] = [];
  page.on('request', (request) => void asked.push(new URL(request.url()).pathname));
  const readings = () => asked.filter((path) => path === '/api/v1/calls').length;
  await browser.visit('#/tasks');
  await browser.visit('#/drift');
  await read.getByText('No client has called it lately').waitFor();
  await page
    .getByRole('article', { name: /^send, / })
    .getByText(/Called lately by wire 1/)
    .first()
    .waitFor();
  assert.equal(readings(), 1, 'one reading serves all definitions of the server');
  await wire.callText('mail__read');
  await read.getByText(/Called lately by wire 1 as anonymous \(1, /).waitFor();
  page.removeAllListeners('request');
  assert.equal(readings(), 1, 'the live stream reports the call');
  await page.getByRole('button', { name: /^Approve all \d$/ }).click();
  await page.getByRole('button', { name: /^Confirm: Approve all \d/ }).click();
  await page.getByText(/^Approved \d definitions of mail$/).waitFor();
  await page.getByRole('article').first().waitFor({ state: 'detached' });
  assert.deepEqual((await drift()).waiting, []);
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

const { memory, everything } = FOUR_SERVERS.mcpServers;

let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({ config: { mcpServers: { memory } } });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway, '#/configuration');
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

test('a change of the file is shown, with the result for each server', async () => {
  const { page } = browser;
  await page.getByText('A reload would change nothing.').waitFor();
  const sources = page.getByRole('region', { name: 'Sources' });
  await sources.getByRole('link', { name: 'memory' }).waitFor();
  gateway.rewrite({ mcpServers: { memory: { ...memory, timeoutMs: 4_321 }, everything } });
  const history = page.getByRole('region', { name: 'History' });
  await history.getByRole('link', { name: 'everything' }).waitFor({ timeout: 30_000 });
  await history.getByText('4321').waitFor();
  await history.getByText('1 field', { exact: true }).waitFor();
  assert.match((await history.getByRole('listitem').first().textContent())!, /version \d+, \d+ s ago/);
  await sources.getByRole('link', { name: 'everything' }).waitFor();
});

test('a mistake shows with its code frame; a reload says that it is refused', async () => {
  const { page } = browser;
  gateway.rewrite({ mcpServers: {}, listen: 7 });
  const problems = page.getByRole('region', { name: 'Problems' });
  await problems.waitFor({ timeout: 30_000 });
  assert.match((await problems.textContent())!, /TL\d{4}/);
  assert.match((await problems.locator('.frame').first().textContent())!, /\^/);
  await page.getByRole('region', { name: 'History' }).getByText('refused').waitFor();
  await page.getByText('trunkline reload').waitFor();
  await page.getByRole('button', { name: 'Reload now', exact: true }).click();
  await page.getByText(/Refused; version \d+ stays in force/).waitFor();
  await browser.assertAccessible();
  await browser.screenshots('configuration');
});

test('a mistake in one server reaches the overview and the history as it is made; the others follow the file', async () => {
  const { page } = browser;
  gateway.rewrite({ mcpServers: { memory }, sessions: { max: 1 } });
  await page.getByRole('region', { name: 'Problems' }).waitFor({ state: 'detached', timeout: 30_000 });
  await browser.visit('#/');
  // The overview shows conditions that need an operator, as they begin and end.
  await WireClient.open(gateway.mcpUrl);
  const full = page.getByRole('listitem').filter({ hasText: 'There are nearly as many sessions as allowed' });
  await full.getByRole('link', { name: 'Look' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sessions' }).waitFor();
  await browser.visit('#/');
  await full.waitFor();
  const { sessions } = await gateway.control<Json>('/api/v1/sessions');
  await gateway.control(`/api/v1/sessions/${sessions[0].label}`, 'DELETE');
  await page.getByText('Nothing needs attention.').waitFor();
  const headers = { A: 'b' };
  gateway.rewrite({ mcpServers: { memory: { ...memory, headers } }, sessions: { max: 1 } });
  const warning = page.getByRole('listitem').filter({ hasText: 'The configuration has 1 warning' });
  await warning.getByText(/json:1: mcpServers\.memory\.headers has no effect .*; fix: remove the key$/).waitFor();
  gateway.rewrite({ mcpServers: { memory: { ...memory, comand: 'x', evn: {}, q1: 1, q2: 1, q3: 1, q4: 1 } } });
  const mistake = page.getByRole('listitem').filter({ hasText: 'The configuration has 6 mistakes' });
  const lines = (await mistake.locator('p').innerText({ timeout: 30_000 })).split('\n');
  assert.match(
    lines[0]!,
    /^\/.*\/trunkline\.json:1: mcpServers\.memory\.comand is not a known key; fix: .*"command"\?$/,
  );
  assert.match(lines[1]!, /^\/.*\/trunkline\.json:1: mcpServers\.memory\.evn is not a known key; fix: .*"env"\?$/);
  assert.deepEqual(lines.slice(5), ['and 1 more', 'The parts with a mistake stay as they were before.']);
  await mistake.getByRole('link', { name: 'Look' }).click({ timeout: 30_000 });
  const newest = page.getByRole('region', { name: 'History' }).getByRole('listitem').first();
  await newest.getByText(/TL1301 .*comand/).waitFor();
});

test('a reload applies the corrected file', async () => {
  const { page } = browser;
  const before = (await gateway.control<Json>('/api/v1/configuration')).version;
  gateway.rewrite({ mcpServers: { memory, second: everything } });
  await page.getByRole('button', { name: 'Reload now', exact: true }).click();
  await page.getByRole('region', { name: 'Sources' }).getByRole('link', { name: 'second' }).waitFor();
  await page.getByRole('region', { name: 'Problems' }).waitFor({ state: 'detached' });
  assert.ok((await gateway.control<Json>('/api/v1/configuration')).version > before);
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

const WRITER = 'key-of-writer-0123456789';
let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  const { memory } = FOUR_SERVERS.mcpServers;
  const agents = { writer: { key: '${WRITER_KEY}' }, guest: { key: 'key-of-guest-0123456789', servers: ['memory'] } };
  gateway = await RunningGateway.start({
    config: { mcpServers: { memory }, agents },
    env: { WRITER_KEY: WRITER, HOME: '/home/ada' },
  });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway, '#/connect');
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

test('each client has its command or its file, to be copied, for the chosen agent and without its key', async () => {
  const { page } = browser;
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Cursor', exact: true }).click();
  const cursor = page.getByRole('region', { name: 'Cursor' });
  await cursor.getByText('trunkline link cursor --key "$WRITER_KEY"').waitFor();
  await cursor.getByRole('button', { name: 'Copy the file', exact: true }).click();
  await page.getByText('Copied').waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.deepEqual(JSON.parse(copied).mcpServers.tl, {
    url: gateway.mcpUrl,
    headers: { Authorization: 'Bearer $WRITER_KEY' },
  });
  await page.getByRole('button', { name: 'Claude Code', exact: true }).click();
  const claude = page.getByRole('region', { name: 'Claude Code' });
  await claude.getByText(/^claude mcp add -t http tl .*\$WRITER_KEY"$/).waitFor();
  await page.getByLabel('As agent').selectOption('guest');
  await claude.getByText(/^claude mcp add .*\$\(trunkline key guest\)"$/).waitFor();
  assert.match(page.url(), /#\/connect\/claude-code\?agent=guest$/);
  assert.ok(!(await page.textContent('body'))!.includes('key-of-'));
});

test('an agent that is added appears without a reload', async () => {
  const { page } = browser;
  const { memory } = FOUR_SERVERS.mcpServers;
  gateway.rewrite({
    mcpServers: { memory },
    agents: { guest: { key: 'key-of-guest-0123456789' }, newcomer: { key: WRITER } },
  });
  await page
    .getByLabel('As agent')
    .locator('option', { hasText: 'newcomer' })
    .waitFor({ state: 'attached', timeout: 30_000 });
});

test('it is accessible, and fits a phone', async () => {
  await browser.assertAccessible();
  await browser.screenshots('connect');
});

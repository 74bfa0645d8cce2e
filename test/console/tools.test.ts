import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { manySided } from '../support/many-sided.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

const CHANGING = resolve(import.meta.dirname, '../fixtures/drift/changing.mjs');
const folder = mkdtempSync(join(tmpdir(), 'trunkline-tools-page-'));
const offered = join(folder, 'offer.json');

/** Sets the tools that the server `plain` lists from now on. */
function offer(...names: readonly string[]): void {
  const tools = names.map((name) => ({ name, inputSchema: { type: 'object' } }));
  writeFileSync(`${offered}.new`, JSON.stringify({ tools }));
  renameSync(`${offered}.new`, offered);
}

let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  offer('first');
  const { mcpServers } = FOUR_SERVERS as { mcpServers: Record<string, object> };
  gateway = await RunningGateway.start({
    config: {
      $schema: 'trunkline',
      mcpServers: {
        ...mcpServers,
        plain: { command: process.execPath, args: [CHANGING, offered], drift: 'off' },
        many: manySided('many', { TOOLS: '1000' }, { excludeTools: ['fail'] }),
      },
    },
  });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway, '#/tools/memory');
  browser.page.setDefaultTimeout(15_000);
});
after(async () => {
  try {
    await browser?.close();
  } finally {
    await gateway?.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
});

test('tools of a server have exposed names, lengths and costs', async () => {
  const { page } = browser;
  const row = page.getByRole('row', { name: /create_entities/ });
  await row.getByText('memory__create_entities').waitFor();
  const { tools } = await gateway.control<{ tools: { name: string; tokens: number }[] }>('/api/v1/tools?server=memory');
  const { tokens } = tools.find(({ name }) => name === 'create_entities')!;
  await row.getByText(String(tokens), { exact: true }).waitFor();
  await row.getByText('23', { exact: true }).waitFor();
});

test('a tool has an address, a readable schema, its JSON, and the name that each client sees', async () => {
  const { page } = browser;
  await page.getByRole('link', { name: 'create_entities' }).click();
  assert.match(page.url(), /#\/tools\/memory\/create_entities$/);
  const detail = page.getByRole('article', { name: 'Tool create_entities' });
  await detail.getByText('entityType').first().waitFor();
  await detail.getByText('mcp__tl__memory__create_entities').first().waitFor();
  await detail.getByText('32/64').first().waitFor();
  await detail.getByRole('button', { name: 'As JSON' }).first().click();
  await detail.getByText('"entityType": {').waitFor();
  await detail.getByText('trunkline tools memory').waitFor();
  await detail.getByRole('button', { name: 'Readable' }).click();
  await browser.screenshots('tools');
  await browser.assertAccessible();
});

test('the view of one client is a list with its names and its limit', async () => {
  const { page } = browser;
  await page.getByLabel('As seen by').selectOption('codex');
  await page.getByText('mcp__tl__memory__create_entities').first().waitFor();
  await page.getByText('trunkline tools --as codex', { exact: true }).waitFor();
  await page
    .getByLabel('Name of the gateway in the client’s file')
    .fill('a-name-of-a-gateway-that-is-far-too-long-for-it');
  await page.getByLabel('Name of the gateway in the client’s file').press('Enter');
  await page.getByText('shortened: too long').first().waitFor();
  assert.match(page.url(), /as=codex/);
  await browser.visit('#/tools');
});

test('on a phone each tool has its server beside it, and the row fits', async () => {
  const { page } = browser;
  await page.setViewportSize({ width: 375, height: 800 });
  for (const [address, name] of [
    ['#/tools/memory', /^memory read_graph \d+$/],
    ['#/tools/memory?as=codex', /^mcp__tl__memory__read_graph 27\/64 \d+$/],
  ] as const) {
    await browser.visit(address);
    const row = page.getByRole('row', { name });
    await row.waitFor();
    assert.ok(await row.evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth), address);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
});

test('a thousand tools are searched and scrolled without a long task', async () => {
  const { page } = browser;
  await browser.visit('#/tools');
  await page.getByRole('grid', { name: 'Tools' }).waitFor();
  const longest: number[] = [];
  while (longest.length < 3 && !longest.some((ms) => ms <= 100))
    longest.push(await browser.longestTask(searchAndScroll));
  assert.ok(Math.min(...longest) <= 100, `tasks of ${longest.join(', ')} ms`);
});

async function searchAndScroll(): Promise<void> {
  const { page } = browser;
  const search = page.getByLabel('Search tools by name and description');
  await search.pressSequentially('t99');
  await page.getByRole('link', { name: 't999', exact: true }).waitFor();
  assert.equal(await page.getByRole('link', { name: 't1', exact: true }).count(), 0);
  await search.fill('');
  const body = page.getByRole('grid', { name: 'Tools' });
  for (let i = 1; i <= 20; i++) await body.evaluate((element, at) => element.scrollTo(0, at), i * 1_500);
  await page
    .getByRole('link', { name: /^t\d+$/ })
    .first()
    .waitFor();
  assert.ok((await page.locator('.table-row').count()) < 120, 'only rows in sight are in the page');
}

test('a tool that a running server adds arrives without a reload, though drift is not watched', async () => {
  const { page } = browser;
  await browser.visit('#/tools/plain');
  await page.getByRole('link', { name: 'first', exact: true }).waitFor();
  offer('first', 'second');
  await page.getByRole('link', { name: 'second', exact: true }).waitFor();
  await browser.visit('#/servers/plain');
  await page.getByText(/^2 tools, /).waitFor();
  offer('third');
  await page.getByText(/^1 tool, /).waitFor();
  await browser.visit('#/tools');
});

test('a new tool arrives without a reload, and tools that are not offered are shown with the reason', async () => {
  const { page } = browser;
  await page.getByText(/not offered to clients/).click();
  await page.getByText('includeTools or excludeTools leaves it out').waitFor();
  await browser.visit('#/tools/added');
  await page.getByText('added offers no tools').waitFor();
  await page.evaluate(() => Object.assign(window, { stayed: true }));
  assert.equal((await new RunTimeClient(gateway).add('added', manySided('added'))).status, 201);
  await page.getByRole('link', { name: 'echo', exact: true }).waitFor();
  assert.equal(await page.evaluate(() => 'stayed' in window), true);
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Locator } from 'playwright-core';
import { manySided } from '../support/many-sided.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({
    config: { mcpServers: { alpha: manySided('alpha'), beta: manySided('beta') } },
  });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway);
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

async function press(...keys: readonly string[]): Promise<void> {
  for (const key of keys) await browser.page.keyboard.press(key);
}

/** The row that the grid names as active. */
async function activeRow(grid: Locator): Promise<Locator> {
  const id = await grid.getAttribute('aria-activedescendant');
  assert.ok(id !== null, 'no row is active');
  return grid.locator(`[id="${id}"]`);
}

test('a page, its filter and a row of its table are reached by keys alone', async () => {
  const { page } = browser;
  await page.getByText('Live', { exact: true }).waitFor();
  await press('g', 's');
  const grid = page.getByRole('grid', { name: 'Servers' });
  await grid.getByText('alpha').waitFor();
  await press('/');
  await page.keyboard.type('bet');
  await grid.getByText('alpha').waitFor({ state: 'detached' });
  await press('Backspace', 'Backspace', 'Backspace');
  await grid.getByText('alpha').waitFor();
  // Past the button that adds a server.
  await press('Tab', 'Tab');
  assert.equal(await grid.evaluate((element) => element === document.activeElement), true);
  assert.match((await (await activeRow(grid)).textContent())!, /^alpha/);
  await press('ArrowDown');
  assert.match((await (await activeRow(grid)).textContent())!, /^beta/);
  await press('Enter');
  await page.getByRole('heading', { level: 1 }).getByText('beta').waitFor();
});

test('the active row of a table stays the same while other rows are added', async () => {
  const { page } = browser;
  const client = await WireClient.open(gateway.mcpUrl);
  await client.callText('alpha__who');
  await client.callText('alpha__echo', { text: 'x' });
  await press('g', 'i');
  const grid = page.getByRole('grid', { name: 'Calls' });
  await grid.getByText('alpha.echo').waitFor();
  await grid.focus();
  await press('End', 'ArrowUp');
  const row = await activeRow(grid);
  const [text, index] = [await row.textContent(), await row.getAttribute('aria-rowindex')];
  await client.callText('beta__who');
  await grid.getByText('beta.who').waitFor();
  const now = await activeRow(grid);
  assert.deepEqual(
    [await now.textContent(), Number(await now.getAttribute('aria-rowindex'))],
    [text, Number(index) + 1],
  );
  await press('Home', 'Enter');
  await page.getByRole('region', { name: 'Call beta.who' }).waitFor();
  assert.match((await page.getByRole('row', { selected: true }).textContent())!, /beta\.who/);
});

test('the picture of calls is moved and zoomed by keys', async () => {
  const { page } = browser;
  const range = async (): Promise<[number, number]> => {
    await page.waitForURL(/range=\d+\.\d-\d+\.\d$/);
    const [, from, to] = /range=([\d.]+)-([\d.]+)$/.exec(page.url())!;
    return [Number(from), Number(to)];
  };
  /** The address follows a moment later. */
  const after = async (key: string): Promise<[number, number]> => {
    const { href } = new URL(page.url());
    await press(key);
    await page.waitForURL((url) => url.href !== href);
    return range();
  };
  await page.getByRole('img', { name: /calls in \d lanes/ }).focus();
  const [from, to] = await after('+');
  assert.ok(Math.abs(to - from - 30_000) < 1, `${to - from} ms`);
  const [later] = await after('ArrowRight');
  assert.ok(Math.abs(later - from - 6_000) < 1, `${later - from} ms`);
  const [wideFrom, wideTo] = await after('-');
  assert.ok(Math.abs(wideTo - wideFrom - 60_000) < 1, `${wideTo - wideFrom} ms`);
  const [earlier] = await after('ArrowLeft');
  assert.ok(Math.abs(wideFrom - earlier - 12_000) < 1, `${wideFrom - earlier} ms`);
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { until } from '../support/cluster-processes.ts';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

/** Limit of the first load, in compressed bytes. */
const BUDGET_BYTES = 120 * 1024;

let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({ config: FOUR_SERVERS });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway);
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

test('a link logs in once, and its code leaves the address', async () => {
  const { page } = browser;
  await page.getByText('sequential-thinking').first().waitFor();
  assert.doesNotMatch(page.url(), /login/);
  const { url } = await gateway.control<{ url: string }>('/api/v1/console-links', 'POST', '{}');
  for (const [times, expected] of [200, 401].entries()) {
    const response = await fetch(new URL('/api/v1/login', gateway.controlUrl), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code: url.split('/').at(-1) }),
    });
    assert.equal(response.status, expected, `use ${times + 1}`);
  }
});

test('a change at the gateway appears without a reload', async () => {
  const { page } = browser;
  await page.evaluate(() => Object.assign(window, { stayed: true }));
  const box = (detail: RegExp) => page.getByRole('link', { name: new RegExp(`^memory ${detail.source}`) });
  await box(/\d+ tools/).waitFor();
  await gateway.control('/api/v1/servers/memory/suspend', 'POST');
  await box(/suspended/).waitFor();
  await gateway.control('/api/v1/servers/memory/resume', 'POST');
  await box(/\d+ tools/).waitFor();
  assert.equal(await page.evaluate(() => 'stayed' in window), true);
});

test('the console opens a new stream if the first one is silent', async () => {
  // The fake clock applies to all pages of a context.
  const context = await browser.page.context().browser()!.newContext();
  try {
    const page = await context.newPage();
    await page.clock.install();
    let streams = 0;
    await page.route('**/api/v1/live*', (route) => (++streams === 1 ? undefined : route.continue()));
    await page.goto((await gateway.control<{ url: string }>('/api/v1/console-links', 'POST', '{}')).url);
    await page.getByText('Connecting').waitFor();
    await page.clock.runFor(11_000);
    await page.getByText('Live', { exact: true }).waitFor();
    assert.equal(streams, 2);
  } finally {
    await context.close();
  }
});

test('the palette finds a server by a few letters and acts on it', async () => {
  const { page } = browser;
  const pid = async () => (await gateway.control<Json>('/api/v1/servers/memory')).connections[0].pid;
  const before = await pid();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('restart mem');
  await page.getByRole('option', { name: 'Restart memory trunkline restart memory' }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('Restart memory: done').waitFor();
  assert.notEqual(await pid(), before);
  // A destructive action asks for a confirmation, which ends when another action is chosen.
  const palette = page.getByRole('dialog', { name: 'Search or run' });
  const state = async () => (await gateway.control<{ state: string }>('/api/v1/servers/memory')).state;
  await page.keyboard.press('Control+k');
  await page.keyboard.type('suspend memory');
  await palette.getByText('trunkline suspend memory', { exact: true }).waitFor();
  await page.keyboard.press('Enter');
  await palette.getByText('Confirm: Suspend memory').waitFor();
  await page.keyboard.press('ArrowUp');
  await palette.getByText('Suspend memory', { exact: true }).waitFor();
  assert.notEqual(await state(), 'suspended');
  for (let press = 0; press < 2; press++) await page.keyboard.press('Enter');
  await page.getByText('Suspend memory: done').waitFor();
  await until(async () => (await state()) === 'suspended', 'the server to be suspended');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('resume memory');
  await palette.getByText('trunkline resume memory', { exact: true }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('Resume memory: done').waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('Change the theme').waitFor();
  await page.keyboard.press('Escape');
});

test('the first load stays in its budget', async () => {
  const { page } = browser;
  const files = await page.evaluate(() =>
    performance
      .getEntriesByType('resource')
      .map(({ name }) => name)
      .filter((name) => /\/assets\//.test(name)),
  );
  assert.ok(files.length >= 2, files.join());
  let bytes = 0;
  for (const url of [gateway.controlUrl, ...files]) {
    bytes += gzipSync(Buffer.from(await (await fetch(url)).arrayBuffer())).length;
  }
  assert.ok(bytes <= BUDGET_BYTES, `${bytes} bytes`);
});

test('the palette and the login page are accessible, and fit a phone', async () => {
  const { page } = browser;
  await browser.assertAccessible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('memory');
  await page.getByRole('option', { name: 'Restart memory trunkline restart memory' }).waitFor();
  await browser.assertAccessible();
  await browser.screenshots('palette');
  // The first Escape empties the field of the palette.
  for (let press = 0; press < 2; press++) await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByText('trunkline console', { exact: true }).waitFor();
  await browser.assertAccessible();
  await browser.screenshots('login');
});

test('a dialog that a shortcut opens at the login, or as the session ends, is closed in the next session', async () => {
  const { page } = browser;
  const begins = async (): Promise<void> => {
    const { url } = await gateway.control<{ url: string }>('/api/v1/console-links', 'POST', '{}');
    await browser.visit(new URL(url).hash);
    await page.getByText('Live', { exact: true }).waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
  };
  for (const key of ['Control+k', '?']) await page.keyboard.press(key);
  await begins();
  await page.context().clearCookies();
  await page.keyboard.press('Control+k');
  await page.getByText('This browser is not logged in').waitFor();
  await begins();
});

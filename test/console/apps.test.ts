import { test } from 'node:test';
import { type InstalledApps, installApps, OFFICIAL_APPS, type OfficialApp } from '../support/app-host/official-apps.ts';
import { until } from '../support/cluster-processes.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

/** A plain app, one whose framework inspects its input, one that asks for much at once, one of 4 MiB with a worker. */
const FEW = ['basic-vanillajs', 'basic-vue', 'debug', 'pdf'];
const SHOWN_MS = 30_000;
const MOST_HEIGHT = 1_200;

/** Calls the tool in the Playground; its app has to be initialized, to show the result and to get what it asks for. */
async function play(browser: ConsoleBrowser, app: OfficialApp, installed: InstalledApps, alone = false): Promise<void> {
  const { page } = browser;
  const input = encodeURIComponent(JSON.stringify(installed.input(app)));
  await browser.visit('#/');
  await browser.visit(
    `#/playground?server=${app.name}&tool=${app.tool}&args=${input}${alone ? `&endpoint=${app.name}` : ''}`,
  );
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  const frame = page.frameLocator('iframe.app-frame');
  await frame.locator(app.shows).first().waitFor();
  if (app.press !== undefined) await frame.getByRole('button', { name: app.press }).click();
  const said = page.getByRole('region', { name: 'App' }).locator('details');
  // The frame grows meanwhile: a click might miss.
  await said.locator('summary').press('Enter');
  await said.getByText('ui/notifications/initialized').waitFor();
  await until(async () => {
    const heights = [...(await said.innerText()).matchAll(/size-changed .*"height":(\d+)/g)];
    const wanted = Math.min(Number(heights.at(-1)?.[1]), MOST_HEIGHT);
    return wanted === (await page.locator('iframe.app-frame').evaluate((element) => element.clientHeight));
  }, `the frame of ${app.name} to have the height that its app wants`);
  const prefix = alone ? '' : `${app.name}__`;
  if (app.asks !== undefined) await said.getByText(`tools/call {"name":"${prefix}${app.asks}"`).waitFor();
}

test('apps of official servers run in the Playground, and their calls reach their servers', {
  timeout: 170_000,
}, async (context) => {
  const apps = OFFICIAL_APPS.filter(({ name }) => FEW.includes(name));
  const installed = await installApps(apps);
  if (typeof installed === 'string') {
    context.skip(`the official app servers could not be installed: ${installed}`);
    return;
  }
  const gateway = await RunningGateway.start({ config: { mcpServers: installed.definitions } });
  let browser: ConsoleBrowser | null = null;
  try {
    await gateway.ready();
    browser = await ConsoleBrowser.open(gateway);
    browser.page.setDefaultTimeout(SHOWN_MS);
    // The viewer works without its stored data: its frame has no storage.
    browser.tolerated = /^\[PDF-VIEWER\] .* error SecurityError: Failed to read the 'localStorage'/;
    for (const app of apps) {
      await play(browser, app, installed);
      let own: readonly Json[] = [];
      const asked = async (): Promise<boolean> => {
        const { calls } = await gateway.control<Json>(`/api/v1/calls?filter=server:${app.name}`);
        own = calls.filter(({ method, outcome }: Json) => method === 'tools/call' && outcome === 'RESULT');
        return own.length > 0 && (app.asks === undefined || own.slice(1).some(({ name }) => name === app.asks));
      };
      await until(asked, `the calls of the app of ${app.name}`);
      context.diagnostic(`${app.name}: ${own.map(({ name }) => name).join(', ')}`);
    }
    // On the app's own endpoint, without the script of the aggregate in its document.
    const vue = apps.find(({ name }) => name === 'basic-vue')!;
    await play(browser, vue, installed, true);
    await browser.close();
    browser = null;
  } finally {
    await browser?.close().catch(() => {});
    await gateway.dispose();
    installed.dispose();
  }
});

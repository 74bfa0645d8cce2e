import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

const ROOT = resolve(import.meta.dirname, '../../ui/src');

/** The selectors of each sheet, without those of its media queries. */
const selectors = globSync('**/*.css', { cwd: ROOT }).flatMap((path) => {
  const text = readFileSync(join(ROOT, path), 'utf8').replace(/\/\*.*?\*\//gs, '');
  const plain = text.replace(/@[^{]+\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}/g, '');
  return [...plain.matchAll(/([^{}]+)\{/g)].flatMap(([, list]) =>
    list!.split(',').map((selector) => ({ path, selector: selector.trim() })),
  );
});

test('no two sheets of the console share a selector, and every selector of a page has a class or an id', () => {
  assert.ok(selectors.length > 200, 'the selectors were found');
  const sheets = Map.groupBy(selectors, ({ selector }) => selector);
  const shared = [...sheets].filter(
    ([selector, found]) => selector !== ':root' && new Set(found.map(({ path }) => path)).size > 1,
  );
  assert.deepEqual(
    shared.map(([selector, found]) => `${selector}: ${found.map(({ path }) => path).join()}`),
    [],
  );
  assert.deepEqual(
    selectors.filter(({ path, selector }) => path.startsWith('pages/') && !/[.#]/.test(selector)),
    [],
  );
});

test('a page looks the same after all others were opened', async (t) => {
  const gateway = await RunningGateway.start({ config: FOUR_SERVERS });
  t.after(() => gateway.dispose());
  await gateway.ready();
  const browser = await ConsoleBrowser.open(gateway, '#/servers/memory');
  t.after(() => browser.close());
  const { page } = browser;
  const looks = async () => {
    await page.locator('main dl.facts').first().waitFor();
    return page.evaluate(() => {
      const style = getComputedStyle(document.querySelector('main dl.facts')!);
      return [document.styleSheets.length, style.gridTemplateColumns.split(' ').length];
    });
  };
  assert.deepEqual(await looks(), [1, 2]);
  const links = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
  for (const link of await links.all()) {
    await link.click();
    await page.locator('nav a[aria-current]', { hasText: (await link.textContent())! }).waitFor();
    await page.getByRole('heading', { level: 1 }).waitFor();
  }
  await browser.visit('#/servers/memory');
  assert.deepEqual(await looks(), [1, 2]);
});

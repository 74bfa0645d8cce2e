import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chromium, type Page } from 'playwright-core';

const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-background-networking'];

/** A real browser, for as long as `use` takes. */
export async function inBrowser(use: (page: Page) => Promise<void>): Promise<void> {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ARGS });
  try {
    await use(await browser.newPage());
  } finally {
    await browser.close();
  }
}

/** Signs in and consents at the pages of `oidc-provider`. */
export async function consent(page: Page): Promise<void> {
  await page.fill('input[name=login]', 'ada');
  await page.fill('input[name=password]', 'x');
  await page.click('button[type=submit]');
  await page.click('button[type=submit]');
}

/** The address that a browser is sent back to after a login that `begin` begins for a redirect URI. */
export async function redirectedTo(begin: (redirectUri: string) => Promise<string>): Promise<string> {
  const back = createServer((_request, response) => response.end('Back'));
  const came = new Promise<string>((resolve) => back.once('request', (request) => resolve(request.url ?? '')));
  await new Promise<void>((open) => back.listen(0, '127.0.0.1', open));
  const origin = `http://127.0.0.1:${(back.address() as AddressInfo).port}`;
  try {
    const address = await begin(`${origin}/back`);
    await inBrowser(async (page) => {
      await page.goto(address);
      await consent(page);
      await page.getByText('Back').waitFor();
    });
    return origin + (await came);
  } finally {
    back.closeAllConnections();
    back.close();
  }
}

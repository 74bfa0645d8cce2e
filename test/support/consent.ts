import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type Page } from 'playwright-core';
import type { CommandRun } from './run-trunkline.ts';

const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-background-networking'];

const CHROMIUM = '/usr/bin/chromium';

/** A real browser, for as long as `use` takes. `under`: a command that starts it elsewhere. It accepts any certificate. */
export async function inBrowser(use: (page: Page) => Promise<void>, under: readonly string[] = []): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-browser-'));
  const executablePath = join(folder, 'chromium');
  writeFileSync(executablePath, `#!/bin/sh\nexec ${[...under, CHROMIUM].join(' ')} "$@"\n`, { mode: 0o755 });
  const browser = await chromium.launch({ executablePath, args: ARGS });
  try {
    await use(await browser.newPage({ ignoreHTTPSErrors: true }));
  } finally {
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
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

/** Follows the address of a login and consents, as a user does; `last`: text of the last page. */
export function signIn(address: string, last: string, under: readonly string[] = []): Promise<void> {
  return inBrowser(async (page) => {
    await page.goto(address);
    await consent(page);
    await page
      .getByText(last)
      .waitFor({ timeout: 15_000 })
      .catch(async (cause: unknown) => {
        throw new Error(`${page.url()}: ${await page.textContent('body')}`, { cause });
      });
  }, under);
}

/** Enters the code at the address, as a user does on any machine. */
export function enterCode(address: string, code: string, under: readonly string[] = []): Promise<void> {
  return inBrowser(async (page) => {
    await page.goto(address);
    await page.fill('input[name=user_code]', code);
    await page.click('button[type=submit]');
    await page.click('button[type=submit]');
    await consent(page);
    await page.getByText('Sign-in Success').waitFor();
  }, under);
}

type Command = Pick<CommandRun, 'err' | 'out'>;

/** The address that `trunkline login` tells its user to open. */
export async function addressIn(login: Command): Promise<string> {
  const [, address = ''] = await saidTo(login, /^ {2}(https?:\S+)\s*$/m);
  return address;
}

/** Waits for output of a command that matches: on standard error or, in a terminal, on either stream. */
export async function saidTo(login: Command, what: RegExp): Promise<RegExpExecArray> {
  for (let waited = 0; waited < 20_000; waited += 50) {
    const found = what.exec(login.err) ?? what.exec(login.out);
    if (found !== null) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`no output matches ${what}: ${login.err}${login.out}`);
}

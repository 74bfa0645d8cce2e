import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { freePort } from '../support/free-port.ts';
import { type Json, send } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

const RESTART = '/api/v1/servers/memory/restart';
let gateway: RunningGateway;
let browser: ConsoleBrowser;
const servers: Server[] = [];
let proxy: ChildProcess | null = null;
let proxied = '';
before(async () => {
  gateway = await RunningGateway.start({ config: { mcpServers: { memory: FOUR_SERVERS.mcpServers.memory } } });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway);
  proxied = await nginx('/', '/ops/trunkline/');
});
after(async () => {
  await browser?.close();
  proxy?.kill();
  for (const server of servers) server.closeAllConnections();
  for (const server of servers) server.close();
  await gateway?.dispose();
});

async function listening(server: Server): Promise<string> {
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A real nginx that serves the console under each path, with the basic configuration of its manual. */
async function nginx(...paths: readonly string[]): Promise<string> {
  const { folder } = gateway;
  const port = await freePort();
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${join(folder, kind)};`,
  );
  const to = `proxy_pass ${gateway.controlUrl}/; proxy_buffering off;`;
  const server = `server { listen 127.0.0.1:${port}; ${paths.map((path) => `location ${path} { ${to} }`).join(' ')} }`;
  const main = `daemon off; pid ${join(folder, 'nginx.pid')}; error_log stderr; events {}`;
  writeFileSync(join(folder, 'nginx.conf'), `${main} http { access_log off; ${temporary.join(' ')} ${server} }`);
  const child = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: 'ignore' });
  proxy = child;
  const address = `http://127.0.0.1:${port}`;
  while (child.exitCode === null) {
    const up = await fetch(address).catch(() => null);
    if (up !== null) return address;
    await new Promise((done) => setTimeout(done, 20));
  }
  throw new Error('nginx did not start');
}

async function pid(): Promise<number> {
  return (await gateway.control<Json>('/api/v1/servers/memory')).connections[0].pid;
}

/** The fragment of an address that logs in. */
async function loginHash(): Promise<string> {
  const { url } = await gateway.control<{ url: string }>('/api/v1/console-links', 'POST', '{}');
  return new URL(url).hash;
}

/** The cookie and the CSRF token of the page that is logged in. */
async function session(): Promise<{ readonly cookie: string; readonly word: string }> {
  const { page } = browser;
  const [cookie] = await page.context().cookies(new URL('/api/v1/servers', gateway.controlUrl).href);
  const word = await page.evaluate(() => localStorage.getItem(`trunkline.csrf:${location.pathname}`));
  assert.ok(cookie !== undefined && word !== null);
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, 'Strict', '/api/v1']);
  return { cookie: `${cookie.name}=${cookie.value}`, word };
}

test('a page at another port of the machine receives the cookie, and cannot use it', async () => {
  let received = '';
  const other = await listening(
    createServer((request, response) => {
      received += request.headers.cookie ?? '';
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Other</title>');
    }),
  );
  const { word } = await session();
  const running = await pid();
  const page = await browser.page.context().newPage();
  // For a browser this is the same site; it sends the cookie along.
  await page.goto(`${other}/api/v1/servers`);
  assert.match(received, /trunkline_console_/);
  const target = gateway.controlUrl + RESTART;
  const tried = await page.evaluate(
    async ({ url, csrf }) => {
      const options = { method: 'POST', credentials: 'include', mode: 'no-cors' } as const;
      const tries = [
        fetch(url, options),
        fetch(url, { ...options, body: '{}' }),
        fetch(url, { method: 'POST', credentials: 'include', headers: { 'trunkline-csrf': csrf } }),
      ];
      return (await Promise.allSettled(tries)).map((one) => (one.status === 'fulfilled' ? one.value.type : 'refused'));
    },
    { url: target, csrf: word },
  );
  assert.deepEqual(tried, ['opaque', 'opaque', 'refused']);
  await page.setContent(`<form method="post" action="${target}"><button>Win</button></form>`);
  await page.getByRole('button').click();
  await page.waitForURL(target);
  assert.equal(await pid(), running, 'the server was restarted by another page');
  await page.close();
});

test('the cookie or the token alone is not enough, and another page changes nothing with both', async () => {
  const { cookie, word } = await session();
  const wrong: readonly (readonly [number, string, Record<string, string>])[] = [
    [403, 'GET', { cookie }],
    [403, 'GET', { cookie, 'trunkline-csrf': `${word}x` }],
    [401, 'GET', { 'trunkline-csrf': word }],
    [401, 'GET', { cookie, 'trunkline-csrf': word, authorization: 'Bearer wrong' }],
    [403, 'POST', { cookie, 'trunkline-csrf': word }],
    [403, 'POST', { cookie, 'trunkline-csrf': word, 'sec-fetch-site': 'same-site' }],
    [403, 'POST', { cookie, 'trunkline-csrf': word, origin: 'http://127.0.0.1:1' }],
    [403, 'POST', { cookie, 'trunkline-csrf': word, origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' }],
  ];
  const running = await pid();
  for (const [status, method, headers] of wrong) {
    const path = method === 'GET' ? '/api/v1/servers' : RESTART;
    const reply = await send(gateway.controlUrl + path, method, headers, null);
    assert.equal(reply.status, status, `${method} ${JSON.stringify(Object.keys(headers))}: ${reply.text}`);
  }
  assert.equal(await pid(), running);
  const good = await send(`${gateway.controlUrl}/api/v1/servers`, 'GET', { cookie, 'trunkline-csrf': word }, null);
  assert.equal(good.status, 200);
});

test('a foreign host name reaches neither the page nor the login', async () => {
  for (const path of ['/', '/api/v1/login']) {
    const headers = { host: 'evil.example', 'content-type': 'application/json' };
    const { status } = await send(
      gateway.controlUrl + path,
      path === '/' ? 'GET' : 'POST',
      headers,
      path === '/' ? null : '{}',
    );
    assert.ok(status === 403 || status === 421, `${path}: ${status}`);
  }
});

test('a logout that does not reach the gateway has no effect, and one that does logs out all tabs', async () => {
  const { page } = browser;
  const context = page.context();
  const other = await context.newPage();
  await other.goto(gateway.controlUrl);
  await other.getByText('Live', { exact: true }).waitFor();
  const login = '**/api/v1/login';
  await other.route(login, (route) => route.abort());
  await other.getByRole('button', { name: 'Log out' }).click();
  await other.getByText('You are still logged in').waitFor();
  await other.unroute(login);
  await other.getByRole('button', { name: 'Log out' }).click();
  for (const tab of [other, page]) await tab.getByText('This browser is not logged in').waitFor();
  await other.close();
  // Opens a link in a page that shows the login.
  await browser.visit(await loginHash());
  await page.getByText('Live', { exact: true }).waitFor();
});

test('an exec token that was pasted ends with its session', async () => {
  const { page } = browser;
  const field = page.getByLabel(/Exec token/);
  await browser.visit('#/servers?add=1');
  await field.fill('pasted');
  const { cookie, word } = await session();
  const headers = { cookie, 'trunkline-csrf': word, 'sec-fetch-site': 'same-origin' };
  assert.equal((await send(`${gateway.controlUrl}/api/v1/login`, 'DELETE', headers, null)).status, 200);
  await page.getByText('This browser is not logged in').waitFor();
  await browser.visit(await loginHash());
  await page.getByText('Live', { exact: true }).waitFor();
  await browser.visit('#/servers?add=1');
  assert.equal(await field.inputValue(), '');
});

test('a login at another port ends the login of a page, which shows this; a late refusal of an earlier session does not', async () => {
  const { page } = browser;
  const [asked, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const hold = async (route: Route): Promise<void> => {
    asked.resolve();
    await held.promise;
    await route.continue();
  };
  await page.route('**/api/v1/tasks', hold, { times: 1 });
  const { word } = await session();
  await browser.visit('#/tasks');
  await asked.promise;
  await browser.visit(await loginHash());
  await page.waitForFunction((old) => !Object.values(localStorage).includes(old), word);
  const late = page.waitForResponse((response) => response.url().endsWith('/tasks'));
  held.resolve();
  assert.equal((await late).status(), 403);
  await page.waitForTimeout(300);
  assert.equal(await page.getByText('This browser is not logged in').count(), 0);

  const isReplaced = async (tab: Page): Promise<void> => {
    await tab.getByText('This browser is not logged in').waitFor();
    await tab.getByText('Another login, such as one at another port').waitFor();
  };
  const other = await page.context().newPage();
  // Only the button of this page reaches the gateway.
  await other.route(/\/api\/v1\/(?!login)/, (route) => route.abort());
  await other.goto(`${proxied}/${await loginHash()}`);
  const logOut = other.getByRole('button', { name: 'Log out' });
  await logOut.waitFor();
  await browser.visit('#/tasks');
  await isReplaced(page);
  await browser.visit(await loginHash());
  await page.getByText('Live', { exact: true }).waitFor();
  // The button shows no error if the page is already logged out.
  await logOut.click();
  await isReplaced(other);
  assert.equal(await other.getByText('You are still logged in').count(), 0);
  await other.close();
});

test('the console works under a path of a proxy, and a logout ends its session', async () => {
  const { page } = browser;
  await page.goto(`${proxied}/ops/trunkline/${await loginHash()}`);
  await page.getByText('Live', { exact: true }).waitFor();
  await browser.visit('#/servers/memory');
  const running = await pid();
  await page.getByRole('button', { name: 'Restart', exact: true }).click();
  await page.getByText('memory was restarted').waitFor();
  assert.notEqual(await pid(), running);
  const [cookie] = await page.context().cookies(`${proxied}/ops/trunkline/api/v1/servers`);
  const word = await page.evaluate(() => localStorage.getItem(`trunkline.csrf:${location.pathname}`));
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByText('This browser is not logged in').waitFor();
  const headers = { cookie: `${cookie!.name}=${cookie!.value}`, 'trunkline-csrf': word! };
  assert.equal((await send(`${gateway.controlUrl}/api/v1/servers`, 'GET', headers, null)).status, 401);
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Locator } from 'playwright-core';
import { ProtectedServer } from '../fixtures/oauth/protected-server.ts';
import { consent, enterCode, inBrowser, redirectedTo } from '../support/consent.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

let server: ProtectedServer;
/** Registers no clients. */
let closed: ProtectedServer;
let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  server = await ProtectedServer.start();
  closed = await ProtectedServer.start({ registers: false });
  const mcpServers = { web: { type: 'http', url: server.url }, closed: { type: 'http', url: closed.url } };
  gateway = await RunningGateway.start({ config: { mcpServers } });
  browser = await ConsoleBrowser.open(gateway, '#/connections');
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
  await server?.stop();
  await closed?.stop();
});

const credentials = async (): Promise<Json> => (await gateway.control<Json>('/api/v1/credentials')).credentials;

/** Follows the link that the button shows, as a person would. */
async function signInAt(part: Locator): Promise<void> {
  const link = part.getByRole('link', { name: 'Sign in to web' });
  await link.waitFor();
  const address = (await link.getAttribute('href'))!;
  const code = part.locator('p[role=status] code');
  const typed = (await code.count()) > 0 ? await code.textContent() : null;
  if (typed !== null) await enterCode(address, typed);
  else {
    await inBrowser(async (other) => {
      await other.goto(address);
      await consent(other);
    });
  }
}

test('a person signs in from the page, and the connection appears', async () => {
  const { page } = browser;
  const card = page.getByRole('region', { name: 'Connection to web' });
  await card.getByText('asks for a sign-in').waitFor({ timeout: 30_000 });
  await card.getByText('trunkline login web').first().waitFor();
  await card.getByRole('button', { name: 'Sign in', exact: true }).click();
  await signInAt(card);
  await card.getByText('connected', { exact: true }).waitFor({ timeout: 30_000 });
  assert.equal((await credentials())[0].state, 'connected');
  await card.getByText('renewed by the gateway').waitFor();
  await browser.assertAccessible();
  await browser.screenshots('connections');
});

test('each step of the sign-in is there, without a token', async () => {
  const { page } = browser;
  await browser.visit('#/sign-in');
  await page.getByRole('link', { name: 'web', exact: true }).click();
  const steps = page.getByRole('list', { name: 'Steps' });
  for (const step of ['resource metadata', 'issuer metadata', 'registration', 'token'] as const) {
    await steps.getByText(step, { exact: true }).first().waitFor();
  }
  const before = await steps.getByRole('listitem').count();
  assert.ok(before >= 4);
  // The steps of another sign-in arrive without a reload.
  const url = await redirectedTo(
    async (redirectUri) =>
      (await gateway.control<Json>('/api/v1/servers/web/login', 'POST', JSON.stringify({ redirectUri }))).url,
  );
  await gateway.control('/api/v1/login-redirects', 'POST', JSON.stringify({ url }));
  await steps.getByText('redirect', { exact: true }).waitFor();
  const shown = (await page.textContent('body'))!;
  for (const token of server.issued) assert.ok(!shown.includes(token), 'a token shows');
  await browser.assertAccessible();
  await browser.screenshots('sign-in');
});

test('the page checks a sign-in step by step, and says at which step it fails', async () => {
  const { page } = browser;
  const check = page.getByRole('region', { name: 'Check' });
  const checked = check.getByRole('list', { name: 'Checked steps' }).locator(':scope > li');
  const names = () => checked.evaluateAll((steps) => steps.map((step) => step.getAttribute('aria-label')));
  const run = check.getByRole('button', { name: 'Check step by step' });
  await check.getByText('trunkline doctor web', { exact: true }).waitFor();
  await run.click();
  await check.getByText('No step fails before the browser opens.').waitFor();
  const all = ['challenge', 'resource metadata', 'issuer metadata', 'registration', 'authorization', 'token'];
  assert.deepEqual(await names(), all);
  const metadata = checked.nth(2);
  await metadata.getByText(`GET ${server.issuer}/.well-known/oauth-authorization-server`, { exact: true }).waitFor();
  await metadata.getByText(/^HTTP 200/).waitFor();
  await browser.visit('#/sign-in/closed');
  await check.getByText('trunkline doctor closed', { exact: true }).waitFor();
  assert.equal(await checked.count(), 0, 'the steps of another server are not shown');
  await run.click();
  await check.getByText('A sign-in fails at registration.').waitFor();
  assert.deepEqual(await names(), all.slice(0, 4));
  await checked
    .last()
    .getByText(/register a client there and set auth\.clientId/)
    .waitFor();
  await browser.assertAccessible();
  await browser.screenshots('sign-in-check');
});

test('a server is authorised again from its connection and from its own page', async () => {
  const { page } = browser;
  for (const [view, part, label] of [
    ['#/connections', page.getByRole('region', { name: 'Connection to web' }), 'Sign in again'],
    ['#/servers/web', page.getByRole('main'), 'Sign in'],
  ] as const) {
    await browser.visit(view);
    const [before] = await credentials();
    const asked: string[] = [];
    page.on('request', (request) => void asked.push(new URL(request.url()).pathname));
    await part.getByRole('button', { name: label, exact: true }).click();
    await signInAt(part);
    await page.getByText('Signed in to web', { exact: true }).last().waitFor({ timeout: 30_000 });
    await part.getByRole('link', { name: 'Sign in to web' }).waitFor({ state: 'detached' });
    const [now] = await credentials();
    assert.equal(now.state, 'connected');
    page.removeAllListeners('request');
    assert.ok(!asked.some((path) => path.startsWith('/api/v1/logins/')), 'the live stream reports the end');
    assert.ok(now.changedAt > before.changedAt, `${label}: the credential has not changed`);
  }
});

test('a login that the authorization server refuses is shown with its reason, and its link disappears', async () => {
  const { page } = browser;
  await browser.visit('#/connections');
  const card = page.getByRole('region', { name: 'Connection to web' });
  await card.getByRole('button', { name: 'Sign in again', exact: true }).click();
  const link = card.getByRole('link', { name: 'Sign in to web' });
  await link.waitFor();
  const address = (await link.getAttribute('href'))!;
  await inBrowser(async (other) => {
    await other.goto(address);
    await other.click('text=Cancel');
  });
  await page
    .locator('.toast.tone-bad')
    .getByText(/access_denied/)
    .waitFor({ timeout: 30_000 });
  await link.waitFor({ state: 'detached' });
  assert.equal((await credentials())[0].state, 'connected');
  await page.getByRole('button', { name: 'Dismiss' }).last().click();
});

test('a login with a code completes although no page waits for it', async () => {
  const [before] = await credentials();
  const begun = await gateway.control<Json>('/api/v1/servers/web/login', 'POST', '{"redirectUri":null}');
  await enterCode(begun.url, begun.userCode);
  const ended = new Promise<Json>((resolve) => {
    const look = async () => {
      const [now] = await credentials();
      if (now.changedAt > before.changedAt) resolve(now);
      else setTimeout(look, 200);
    };
    void look();
  });
  assert.equal((await ended).state, 'connected');
});

test('a connection is revoked', async () => {
  const { page } = browser;
  await browser.visit('#/connections');
  const card = page.getByRole('region', { name: 'Connection to web' });
  await card.getByText('trunkline logout web').waitFor();
  await card.getByRole('button', { name: 'Revoke', exact: true }).click();
  await card.getByRole('button', { name: 'Confirm: Revoke', exact: true }).click();
  await page.getByText('The credential for web is revoked').waitFor();
  await card.getByText('asks for a sign-in').waitFor();
  assert.deepEqual(await credentials(), []);
});

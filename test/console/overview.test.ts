import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProtectedServer } from '../fixtures/oauth/protected-server.ts';
import { manySided } from '../support/many-sided.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

test('the overview: what needs attention with its remedy, what is connected, rates and latency, as they change', async (t) => {
  const locked = await ProtectedServer.start();
  const good = manySided('good');
  const config = (dead: object) => ({ mcpServers: { good, dead, locked: { type: 'http', url: locked.url } } });
  const gateway = await RunningGateway.start({ config: config({ command: 'no-such-program' }) });
  try {
    await gateway.ready('good');
    const browser = await ConsoleBrowser.open(gateway);
    t.after(() => browser.close());
    const { page } = browser;
    const attention = page.getByRole('region', { name: 'Needs attention' });
    const dead = attention.getByRole('listitem').filter({ hasText: /dead (?:has|is) \w+/ });
    await dead.getByText('no-such-program').waitFor();
    const login = attention.getByRole('listitem').filter({ hasText: 'locked needs a login' });
    await login.getByText('trunkline login locked', { exact: true }).waitFor();

    const history = async () => (await gateway.control<{ history: unknown[] }>('/api/v1/servers/dead')).history.length;
    const before = await history();
    await dead.getByRole('button', { name: 'Restart', exact: true }).click();
    await page
      .getByRole('status')
      .filter({ hasText: /dead (?:has|is) \w+/ })
      .waitFor();
    assert.ok((await history()) > before, 'the server was not tried again');

    const client = await WireClient.open(gateway.mcpUrl);
    const picture = page.getByRole('region', { name: 'What is connected' });
    const calling = setInterval(() => void client.callText('good__echo', { text: 'x' }), 100);
    try {
      await picture.getByRole('link', { name: /^wire 1 1 session/ }).waitFor();
      // Beside the client and beside the server.
      await picture
        .getByText(/\d\/s \d/)
        .nth(1)
        .waitFor();
      const info = { 'io.modelcontextprotocol/clientInfo': { name: 'modern', version: '2' } };
      const modern = new WireClient(gateway.mcpUrl, 'stateless');
      await modern.result('tools/call', { name: 'good__echo', arguments: { text: 'x' }, _meta: info });
      await picture.getByRole('link', { name: /^modern 2 no session, 2026-07-28/ }).waitFor();
      const rate = page.locator('dl.figures div').filter({ hasText: 'Calls per second' }).locator('dd');
      await page.waitForFunction((text) => Number(text?.textContent) > 1, await rate.elementHandle());
      await page.waitForFunction(() => document.querySelector('.latency-chart canvas') !== null);
      await page.waitForTimeout(3_000);
      await browser.assertAccessible();
      await browser.screenshots('overview');
    } finally {
      clearInterval(calling);
    }

    gateway.rewrite(config(manySided('dead')));
    await dead.waitFor({ state: 'detached' });
    await picture.getByRole('link', { name: /^dead \d+ tools/ }).click();
    assert.equal(await page.evaluate(() => location.hash), '#/servers/dead');
  } finally {
    await gateway.dispose();
    await locked.stop();
  }
});

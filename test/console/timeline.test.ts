import assert from 'node:assert/strict';
import { test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

test('the timeline: the attempts of a call whose process died, as spans of the call', async (t) => {
  const gateway = await RunningGateway.start({
    config: { mcpServers: { dies: manySided('dies', {}, { retry: 'always' }) } },
  });
  t.after(() => gateway.dispose());
  await gateway.ready('dies');
  const client = await WireClient.open(gateway.mcpUrl);
  const { pid } = JSON.parse(await client.callText('dies__who'));
  const slept = client.callText('dies__sleep', { ms: 600 });
  await new Promise((done) => setTimeout(done, 200));
  process.kill(pid, 'SIGKILL');
  assert.equal(await slept, 'slept');
  const browser = await ConsoleBrowser.open(gateway, '#/timeline');
  t.after(() => browser.close());
  const { page } = browser;
  const rows = page.getByRole('grid', { name: 'Calls' }).getByRole('row');
  await rows.filter({ hasText: 'dies.who' }).click();
  await page.getByRole('region', { name: 'Call dies.who' }).waitFor();
  assert.equal(await page.getByText('Attempt 1').count(), 0, 'one attempt is the call itself');
  await rows.filter({ hasText: 'dies.sleep' }).click();
  const spans = page.getByRole('region', { name: 'Call dies.sleep' }).getByRole('listitem');
  const [first, second] = [spans.filter({ hasText: 'Attempt 1' }), spans.filter({ hasText: 'Attempt 2' })];
  await first.getByText(`process ${pid}`).waitFor();
  assert.match((await first.textContent())!, /connection c\d+.*UNKNOWN: .*ended by SIGKILL/);
  assert.match((await second.textContent())!, /process \d+began after \d+ ms, RESULT/);
  const [before, after] = [
    await first.locator('.span-bar').boundingBox(),
    await second.locator('.span-bar').boundingBox(),
  ];
  assert.ok(before!.x + before!.width <= after!.x + 2, 'the second begins where the first has failed');
  assert.ok(after!.width > before!.width);
  await browser.assertAccessible();
  await browser.screenshots('timeline-attempts');
});

test('the timeline: calls in lanes and in a table, as they come; filter, pause, one call in detail', async (t) => {
  const gateway = await RunningGateway.start({
    config: { mcpServers: { good: manySided('good'), slow: manySided('slow', {}, { timeoutMs: 200 }) } },
  });
  try {
    await gateway.ready('good', 'slow');
    const client = await WireClient.open(gateway.mcpUrl);
    await client.callText('good__echo', { text: 'before' });
    const browser = await ConsoleBrowser.open(gateway, '#/timeline');
    t.after(() => browser.close());
    const { page } = browser;
    const rows = page.getByRole('grid', { name: 'Calls' }).getByRole('row');
    await rows.filter({ hasText: 'good.echo' }).first().waitFor();

    await client.request('tools/call', { name: 'slow__sleep', arguments: { ms: 5_000 } });
    const failed = rows.filter({ hasText: 'slow.sleep' });
    await failed.waitFor();
    assert.match((await failed.textContent())!, /UNKNOWN/);

    await failed.click();
    const detail = page.getByRole('region', { name: 'Call slow.sleep' });
    await detail.getByText('wire 1 → gateway').waitFor();
    const [, id] = /trunkline trace (\S+-\d+)/.exec((await detail.textContent())!)!;
    assert.ok((await page.evaluate(() => location.hash)).startsWith(`#/timeline/${id}`));
    await browser.assertAccessible();
    await browser.screenshots('timeline');
    await detail.getByRole('button', { name: 'Close' }).click();
    await detail.waitFor({ state: 'detached' });

    const filter = page.getByRole('searchbox', { name: 'Filter' });
    await filter.fill('server:slow status:error');
    await rows.filter({ hasText: 'good.echo' }).waitFor({ state: 'detached' });
    assert.ok(page.url().includes('filter=server'));
    await page.getByText('trunkline calls server:slow status:error').waitFor();
    await filter.fill('ms>50 -client:codex');
    await page.getByText("trunkline calls 'ms>50' -client:codex").waitFor();
    await filter.fill('server:slow -json');
    await page.getByText('trunkline calls -- server:slow -json').waitFor();
    await filter.fill('colour:red');
    await page.getByText('there is no key "colour"').waitFor();
    await filter.fill('');

    await page.getByRole('button', { name: 'Pause' }).click();
    await client.callText('good__who').catch(() => {});
    await client.request('tools/call', { name: 'good__none', arguments: {} });
    await new Promise((done) => setTimeout(done, 1_500));
    assert.equal(await rows.filter({ hasText: 'good__none' }).count(), 0);
    await page.getByRole('button', { name: 'Go on' }).click();
    await rows.filter({ hasText: 'good__none' }).waitFor();

    // A call that comes while the list is on its way is in the picture.
    await browser.visit('#/');
    await page.route('**/api/v1/calls?*', async (route) => {
      const answer = await route.fetch();
      await client.callText('good__echo', { text: 'meanwhile' });
      await new Promise((done) => setTimeout(done, 1_000));
      await route.fulfill({ response: answer });
    });
    const known = (await gateway.control<{ calls: unknown[] }>('/api/v1/calls')).calls.length;
    await browser.visit('#/timeline');
    await page.getByText(`of ${known + 1} calls in sight`).waitFor();
    await page.unroute('**/api/v1/calls?*');
    // The page reads calls again that the stream lost.
    let streams = 0;
    await page.route('**/api/v1/live*', (route) => {
      const lost = 'data: {"topic":"calls","node":null,"calls":[],"lost":true}\n\n';
      const contentType = 'text/event-stream';
      const isFirst = !route.request().url().includes('logs=') && streams++ === 0;
      return route.fulfill({ contentType, body: isFirst ? lost : ':\n\n' });
    });
    await browser.visit('#/servers/good');
    await page.getByRole('log').getByText('server_state').first().waitFor();
    await browser.visit('#/timeline');
    await page.getByText('Some calls are missing').waitFor();
    await client.callText('good__echo', { text: 'not told' });
    await page.getByRole('button', { name: 'Read again' }).click();
    await page.getByText('Some calls are missing').waitFor({ state: 'detached' });
    await page.getByText(`of ${known + 2} calls in sight`).waitFor();
    await page.unroute('**/api/v1/live*');
    // Later calls belong to all calls, too.
    await page.getByRole('button', { name: 'All', exact: true }).click();
    await client.callText('good__echo', { text: 'later' });
    await page.getByText(`${known + 3} of ${known + 3} calls in sight`).waitFor();
    await page.getByRole('button', { name: 'Last minute' }).click();

    // A drag over the picture leaves the calls of that time; the button goes back to the last minute.
    const picture = page.getByRole('img', { name: /calls in \d lanes/ });
    const box = (await picture.boundingBox())!;
    await page.mouse.move(box.x + 150, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + 200, box.y + 40);
    await page.mouse.up();
    await page.getByText('No calls in this part of the time').waitFor();
    // The address keeps the range.
    await page.waitForURL(/range=\d+\.\d-\d+\.\d$/);
    const { hash } = new URL(page.url());
    await page.getByRole('button', { name: 'Last minute' }).click();
    await rows.filter({ hasText: 'good.echo' }).first().waitFor();
    await page.waitForURL((url) => !url.hash.includes('range'));
    await browser.visit(hash);
    await page.getByText('No calls in this part of the time').waitFor();
    await page.getByRole('button', { name: 'Last minute' }).click();
    await rows.filter({ hasText: 'good.echo' }).first().waitFor();
  } finally {
    await gateway.dispose();
  }
});

test('the timeline begins with all calls where the last minute has none', async (t) => {
  const gateway = await RunningGateway.start({ config: { mcpServers: { good: manySided('good') } } });
  t.after(() => gateway.dispose());
  await gateway.ready();
  const client = await WireClient.open(gateway.mcpUrl);
  await client.callText('good__echo', { text: 'long ago' });
  const browser = await ConsoleBrowser.open(gateway);
  t.after(() => browser.close());
  const { page } = browser;
  await page.route('**/api/v1/calls?*', async (route) => {
    const response = await route.fetch();
    const answer = (await response.json()) as { calls: readonly { readonly time: string }[] };
    const calls = answer.calls.map((one) => ({ ...one, time: new Date(Date.parse(one.time) - 600_000).toISOString() }));
    await route.fulfill({ response, json: { ...answer, calls } });
  });
  await browser.visit('#/timeline');
  await page.getByText(/^([1-9]\d*) of \1 calls in sight/).waitFor();
  // The button still selects the last minute.
  await page.getByRole('button', { name: 'Last minute' }).click();
  await page.getByText(/^0 of \d+ calls in sight/).waitFor();
});

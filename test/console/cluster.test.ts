import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

let nodes: ClusterProcesses;
let blue: NodeProcess;
let browser: ConsoleBrowser;
before(async () => {
  nodes = await ClusterProcesses.start();
  blue = await nodes.node('blue', { counter: counterServer(), shared: counterServer(), fragile: breakable() });
  browser = await ConsoleBrowser.open(blue.gateway, '#/cluster');
});
after(async () => {
  await browser?.close();
  await nodes?.dispose();
});

test('the page shows a joining node, what the nodes own and their conflicts without a reload', async () => {
  const { page } = browser;
  const own = page.getByRole('region', { name: 'Node blue' });
  await own.getByText('ready').waitFor();
  const ofGreen = { shared: counterServer({ timeoutMs: 1_234 }), other: counterServer(), fragile: breakable() };
  await nodes.node('green', ofGreen);
  const green = page.getByRole('region', { name: 'Node green' });
  await green.getByText('ready').waitFor({ timeout: 30_000 });
  await green.getByText('fragile, other, shared').waitFor();
  const conflicts = page.getByRole('region', { name: 'Conflicts' });
  await conflicts.getByText('shared').waitFor({ timeout: 30_000 });
  const wire = await WireClient.open(blue.mcpUrl);
  await wire.callText('counter__count');
  await page.getByRole('table', { name: 'What only this node may run' }).getByText('counter').first().waitFor();
  for (const part of ['bus', 'lease', 'store']) {
    await page.getByRole('region', { name: 'What the nodes share' }).getByText(part, { exact: true }).waitFor();
  }
  const owned = page.getByRole('region', { name: 'Owned here' });
  await owned.getByLabel('Of the node').selectOption('green');
  await owned.getByRole('heading', { name: 'Owned by green' }).waitFor();
  await owned.getByText('other').first().waitFor();
  await browser.visit('#/configuration?node=green');
  await page.getByRole('region', { name: 'Sources' }).getByRole('link', { name: 'other' }).waitFor();
  for (const verb of ['check', 'reload', 'plan']) await page.getByText(`at node green:trunkline ${verb}`).waitFor();
  // The page does not show the data of one node for another node that does not answer.
  await browser.visit('#/configuration?node=yellow');
  await page.getByText('there is no other node named "yellow"').waitFor();
  assert.equal(await page.getByRole('region', { name: 'Sources' }).count(), 0);
  // A server that only the other node has, with the history that only that node has.
  await browser.visit('#/servers/other');
  await page.locator('ol.history li').first().waitFor();
  // A line that the node logged before the page was opened.
  await page
    .getByRole('log')
    .getByText(/green server_state/)
    .waitFor();
  await browser.visit('#/cluster');
  await green.getByText('ready').waitFor();
  await browser.assertAccessible();
  await browser.screenshots('cluster');
});

test('a server that fails at the other node only, its log, and the calls and sessions of both are in one view', async () => {
  const { page } = browser;
  const green = nodes.nodes[1]!;
  await browser.visit('#/');
  const attention = page.getByRole('region', { name: 'Needs attention' });
  writeFileSync(join(green.gateway.folder, 'broken'), '');
  await blue.gateway.control('/api/v1/servers/fragile/restart', 'POST');
  const failed = attention.getByRole('listitem').filter({ hasText: 'fragile has failed at green' });
  await failed.getByText('exited with code 3').waitFor();
  assert.equal(await attention.getByText('fragile has failed at blue').count(), 0);
  await failed.getByRole('link', { name: 'Look' }).click();
  await page.getByRole('heading', { level: 1, name: /fragile failed/ }).waitFor();
  assert.equal(await page.getByLabel('Of the node').inputValue(), 'green');
  const log = page.getByRole('log');
  await log.getByText(/green .*green is broken/).waitFor();
  await page.getByLabel('Of the node').selectOption('blue');
  await page.getByRole('heading', { level: 1, name: /fragile running failed at green/ }).waitFor();
  await browser.assertAccessible();

  const atBlue = await WireClient.open(blue.serverUrl('other'));
  await WireClient.open(green.serverUrl('other'));
  await browser.visit('#/');
  const picture = page.getByRole('region', { name: 'What is connected' });
  const calling = setInterval(() => void atBlue.callText('count'), 200);
  await picture
    .getByRole('link', { name: /^blue ready, [\d.]+\/s \d/ })
    .waitFor()
    .finally(() => clearInterval(calling));
  await browser.visit('#/timeline?filter=server:other');
  await page.getByRole('grid', { name: 'Calls' }).getByText('count').first().click();
  await page.getByText('node blue → other (at node green)').waitFor();
  await browser.visit('#/sessions');
  const { sessions } = await blue.control<{ sessions: { label: string; here: boolean }[] }>('/api/v1/sessions');
  assert.deepEqual(new Set(sessions.map(({ here }) => here)), new Set([true, false]));
  for (const { label } of sessions) await page.locator(`a[href="#/sessions/${label}"]`).waitFor();
  await browser.visit('#/cluster');
});

test('problems of another node appear here as they begin, and disappear when they are solved', async () => {
  const { page } = browser;
  const green = nodes.nodes[1]!;
  const config = JSON.parse(readFileSync(join(green.gateway.folder, 'trunkline.json'), 'utf8'));
  const { other, ...servers } = config.mcpServers;
  await browser.visit('#/');
  const attention = page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem');
  const mistake = attention.filter({ hasText: 'The configuration has 1 mistake at green' });
  const full = attention.filter({ hasText: 'There are nearly as many sessions as allowed at green' });
  const wrong = { ...servers, other: { ...other, comand: 'x' } };
  green.gateway.rewrite({ ...config, sessions: { max: 1 }, mcpServers: wrong });
  await mistake.getByText('at node green:trunkline check').waitFor({ timeout: 30_000 });
  await full.getByText('of 2 sessions').waitFor();
  await mistake.getByRole('link', { name: 'Look' }).click();
  await page
    .getByRole('region', { name: 'Problems' })
    .getByText(/TL1301/)
    .waitFor();
  assert.equal(await page.getByLabel('Of the node').inputValue(), 'green');
  await browser.visit('#/');
  await mistake.waitFor();
  green.gateway.rewrite(config);
  await mistake.waitFor({ state: 'detached', timeout: 30_000 });
  await full.waitFor({ state: 'detached' });
  await browser.visit('#/cluster');
});

test('the log of the gateway itself has a page: of all nodes or of one, as it is written', async () => {
  const { page } = browser;
  const log = page.getByRole('log', { name: 'Log' });
  await browser.visit('#/log');
  await log.getByText(/green fragile .*green is broken/).waitFor();
  await page.getByText('trunkline logs -f', { exact: true }).waitFor();
  await page.getByLabel('Written by').selectOption('gateway');
  await log.getByText(/blue node_lease_held/).waitFor();
  await log.getByText(/green node_lease_held/).waitFor();
  assert.equal(await log.getByText('green is broken').count(), 0);
  // After this wait the stream runs at all nodes, and the page sends no more requests for it.
  await page.waitForTimeout(1_000);
  const asked: string[] = [];
  const onRequest = (request: { url(): string }): void => void asked.push(request.url());
  page.on('request', onRequest);
  await blue.control('/api/v1/nodes/nobody/drain', 'POST').catch(() => {});
  await log.getByText(/blue control .*drainNode/).waitFor();
  await blue.control('/api/v1/servers/other/restart?node=green', 'POST');
  await log.getByText(/green control .*restartServer/).waitFor();
  page.off('request', onRequest);
  assert.deepEqual(
    asked.filter((url) => url.includes('/logs')),
    [],
    'new lines arrive in the stream that is open',
  );
  await page.getByLabel('Of the node').selectOption('green');
  await log.getByText(/green control .*restartServer/).waitFor();
  assert.equal(await log.getByText('blue control').count(), 0);
  assert.equal(await page.evaluate(() => location.hash), '#/log?of=gateway&node=green');
  await browser.assertAccessible();
  await browser.screenshots('log');
  await browser.visit('#/cluster');
});

test('pages of all nodes name one that does not answer, until it does', async () => {
  const { page } = browser;
  const green = nodes.nodes[1]!;
  const told = page.getByText('No answer from green');
  await browser.visit('#/timeline');
  await page.getByRole('heading', { name: 'Timeline' }).waitFor();
  green.kill('SIGSTOP');
  for (const place of ['#/log', '#/sessions', '#/servers', '#/timeline']) {
    await browser.visit('#/cluster');
    await browser.visit(place);
    await told.waitFor();
    const read = page.waitForResponse((response) => response.url().includes('/api/v1/'));
    await page.getByRole('button', { name: 'Read again' }).click();
    assert.equal((await read).status(), 200);
    await told.waitFor();
  }
  await browser.assertAccessible();
  green.kill('SIGCONT');
  await told.waitFor({ state: 'detached', timeout: 30_000 });
  await browser.visit('#/cluster');
});

test('a node is drained from the page of another one; the overview shows it as it drains', async (t) => {
  const { page } = browser;
  const overview = await ConsoleBrowser.open(blue.gateway, '#/');
  t.after(() => overview.close());
  const picture = overview.page.getByRole('region', { name: 'What is connected' });
  await picture.getByRole('link', { name: /^green ready/ }).waitFor();
  const file = join(nodes.folder, 'let-go');
  const waiting = (await WireClient.open(blue.serverUrl('other'))).callText('wait', { file });
  await until(() => existsSync(`${file}.begun`), 'the call to begin');
  const green = page.getByRole('region', { name: 'Node green' });
  await green.getByText('trunkline drain green').waitFor();
  await green.getByRole('button', { name: 'Drain', exact: true }).click();
  await green.getByRole('button', { name: 'Confirm: Drain', exact: true }).click();
  await page.getByText('green is draining').waitFor();
  await picture.getByRole('link', { name: /^green draining/ }).waitFor();
  writeFileSync(file, '');
  await waiting;
  assert.equal(await nodes.nodes[1]!.exited, 0);
  await green.waitFor({ state: 'detached', timeout: 30_000 });
});

/** If the folder of the node has a file `broken`, the server reports it and does not start. */
function breakable(): object {
  const { command, args } = counterServer() as { command: string; args: string[] };
  const script = 'test -e broken && echo green is broken >&2 && exit 3; exec "$@"';
  return counterServer({ isolation: 'shared', command: 'sh', args: ['-c', script, 'sh', command, ...args] });
}

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ClusterProcesses, counterServer, type NodeProcess } from '../support/cluster-processes.ts';
import type { Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

let nodes: ClusterProcesses;
let blue: NodeProcess;
let browser: ConsoleBrowser;
before(async () => {
  nodes = await ClusterProcesses.start();
  blue = await nodes.node('blue', { counter: counterServer(), shared: counterServer() });
  browser = await ConsoleBrowser.open(blue.gateway, '#/cluster');
});
after(async () => {
  await browser?.close();
  await nodes?.dispose();
});

test('a node that joins, what the nodes own and where their files disagree arrive without a reload', async () => {
  const { page } = browser;
  const own = page.getByRole('region', { name: 'Node blue' });
  await own.getByText('ready').waitFor();
  await nodes.node('green', { shared: counterServer({ timeoutMs: 1_234 }), other: counterServer() });
  const green = page.getByRole('region', { name: 'Node green' });
  await green.getByText('ready').waitFor({ timeout: 30_000 });
  await green.getByText('other, shared').waitFor();
  const conflicts = page.getByRole('region', { name: 'Conflicts' });
  const known = (await blue.control<Json>('/api/v1/nodes')).conflicts;
  if (known.length > 0) await conflicts.getByText('shared').waitFor();
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
  // What is known of one node is not shown as that of another that does not answer.
  await browser.visit('#/configuration?node=yellow');
  await page.getByText('there is no other node named "yellow"').waitFor();
  assert.equal(await page.getByRole('region', { name: 'Sources' }).count(), 0);
  // A server that only the other node has, with what only that node knows.
  await browser.visit('#/servers/other');
  await page.locator('ol.history li').first().waitFor();
  await browser.visit('#/cluster');
  await green.getByText('ready').waitFor();
  await browser.assertAccessible();
  await browser.screenshots('cluster');
});

test('a node is drained from the page of another one', async () => {
  const { page } = browser;
  const green = page.getByRole('region', { name: 'Node green' });
  await green.getByText('trunkline drain green').waitFor();
  await green.getByRole('button', { name: 'Drain', exact: true }).click();
  await green.getByRole('button', { name: 'Drain: sure?', exact: true }).click();
  await page.getByText('green takes nothing new').waitFor();
  assert.equal(await nodes.nodes[1]!.exited, 0);
  await green.waitFor({ state: 'detached', timeout: 30_000 });
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { TaskClient } from '../support/task-client.ts';
import { agents, keyOf, stdio } from '../support/task-gateway.ts';
import { ConsoleBrowser } from './console.ts';

let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({ config: { mcpServers: { jobs: stdio('stateful') }, agents } });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway, '#/tasks');
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

test('a task appears when a call begins it, and can be cancelled', async () => {
  const { page } = browser;
  await page.getByText('There are no tasks').waitFor();
  const client = await TaskClient.open(gateway.mcpUrl, 'stateful', { headers: keyOf('ada') });
  const { taskId } = await client.start('jobs__endless');
  const row = page.getByRole('row', { name: /working jobs agent:ada/ });
  await row.waitFor();
  await row.click();
  const task = page.getByRole('region', { name: 'Task', exact: true });
  const [{ key }] = (await gateway.control<Json>('/api/v1/tasks')).tasks;
  await task.getByText(`trunkline tasks cancel ${key}`).waitFor();
  await browser.assertAccessible();
  await browser.screenshots('tasks');
  await task.getByRole('button', { name: 'Cancel', exact: true }).click();
  await task.getByRole('button', { name: 'Confirm: Cancel', exact: true }).click();
  await page.getByText('The task is cancelled').waitFor();
  await page.getByRole('row', { name: /cancelled jobs/ }).waitFor();
  assert.equal((await client.get(taskId)).status, 'cancelled');
  assert.equal(await task.getByRole('button', { name: 'Cancel', exact: true }).isDisabled(), true);
});

test('a new status of a task appears without a reload', async () => {
  const { page } = browser;
  const client = await TaskClient.open(gateway.mcpUrl, 'stateful', { headers: keyOf('bob') });
  const { taskId } = await client.start('jobs__must');
  await page.getByRole('row', { name: /working jobs agent:bob/ }).waitFor();
  await client.until(taskId, 'completed');
  await page.getByRole('row', { name: /completed jobs agent:bob/ }).waitFor();
});

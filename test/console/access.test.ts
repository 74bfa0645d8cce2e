import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { keyOf } from '../support/task-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

const { memory, everything } = FOUR_SERVERS.mcpServers;
const config = {
  mcpServers: { memory: { ...memory, excludeTools: ['delete_entities'] }, everything },
  agents: {
    writer: { key: 'key-of-writer-0123456789' },
    guest: { key: 'key-of-guest-0123456789', servers: ['memory'] },
  },
};

let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({ config });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway, '#/access');
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

test('the matrix has what each agent may use, and a tool leads to the policy that decides', async () => {
  const { page } = browser;
  const guest = page.getByRole('row', { name: /^guest/ });
  await guest.getByText('refused').waitFor();
  await guest.getByText(/^\d+ of \d+$/).click();
  const tools = page.getByRole('grid', { name: 'Tools that guest may call' });
  await tools.getByText('delete_entities', { exact: true }).click();
  const why = page.getByRole('region', { name: 'Check a call' });
  await why.getByText('The call would be refused by toolFilter').waitFor();
  await why.getByText('trunkline access why guest memory delete_entities').waitFor();
  assert.match(page.url(), /#\/access\/agent%3Aguest\/memory\?tool=delete_entities$/);
  await why.getByLabel('Server').selectOption('everything');
  await why.getByLabel('Tool').fill('echo');
  await why.getByRole('button', { name: 'Evaluate', exact: true }).click();
  await why.getByText('The call would be refused by access').waitFor();
  await why.getByLabel('Principal').selectOption('agent:writer');
  await why.getByRole('button', { name: 'Evaluate', exact: true }).click();
  await why.getByText('The call would be sent').waitFor();
});

test('a refused call arrives in the list without a reload', async () => {
  const { page } = browser;
  const refused = page.getByRole('region', { name: 'Refused calls' });
  await refused.getByText('No call was refused lately.').waitFor();
  const wire = await WireClient.open(gateway.mcpUrl, { headers: keyOf('guest') });
  await wire.request('tools/call', { name: 'everything__echo', arguments: { message: 'x' } });
  await refused.getByText('agent:guest').waitFor();
  await refused.getByText('"everything__echo"', { exact: true }).waitFor();
  await refused.getByText(/cannot use tools from/).waitFor();
  await browser.visit('#/timeline?filter=outcome:REFUSED');
  await page.getByRole('grid', { name: 'Calls' }).getByText('"everything__echo"').click();
  const detail = page.getByRole('region', { name: 'Call "everything__echo"' });
  await detail.getByText('everything__echo (unknown)').waitFor();
  await detail.getByText(/cannot use tools from/).waitFor();
  await browser.visit('#/access');
});

test('a change of the rights is shown without a reload, too', async () => {
  const { page } = browser;
  gateway.rewrite({
    ...config,
    agents: { ...config.agents, guest: { ...config.agents.guest, servers: ['everything'] } },
  });
  await page
    .getByRole('row', { name: /^guest/ })
    .getByText(/^all \d+$/)
    .waitFor({ timeout: 30_000 });
});

test('it is accessible, and fits a phone', async () => {
  await browser.visit('#/access/agent%3Awriter/memory?tool=delete_entities');
  await browser.page.getByText('The call would be refused by toolFilter').waitFor();
  await browser.assertAccessible();
  await browser.screenshots('access');
});

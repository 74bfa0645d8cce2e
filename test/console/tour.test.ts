import { after, before, test } from 'node:test';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({ config: FOUR_SERVERS });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway);
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

test("a newcomer's tour: four servers, a call, a server that breaks, why, and its repair", async () => {
  const { page } = browser;
  const navigation = page.getByRole('navigation', { name: 'Pages' });
  await page.getByText('Nothing: all servers do what they should.').waitFor();
  await navigation.getByRole('link', { name: 'Servers' }).click();
  const table = page.getByRole('table', { name: 'Servers' });
  for (const name of Object.keys(FOUR_SERVERS.mcpServers)) {
    await table.getByRole('row', { name }).getByText('running').waitFor();
  }

  await browser.visit('#/playground?server=everything&tool=get-sum');
  await page.getByLabel(/^a\b/).fill('2');
  await page.getByLabel(/^b\b/).fill('40');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  const answer = page.getByRole('status', { name: 'Answer' });
  await answer.getByText(/2 and 40 is 42/).waitFor();

  const { memory, ...others } = FOUR_SERVERS.mcpServers;
  gateway.rewrite({ mcpServers: { ...others, memory: { ...memory, command: 'no-such-program' } } });
  await navigation.getByRole('link', { name: 'Overview' }).click();
  const attention = page.locator('main').getByText('no-such-program').first();
  await attention.waitFor({ timeout: 45_000 });
  await page.getByRole('link', { name: 'Look' }).first().click();
  const heading = page.getByRole('heading', { level: 1 });
  await heading.getByText('failed').waitFor();
  await page
    .getByText(/trunkline\.json:\d+/)
    .first()
    .waitFor();

  gateway.rewrite(FOUR_SERVERS);
  await heading.getByText('running').waitFor({ timeout: 45_000 });
  await navigation.getByRole('link', { name: 'Overview' }).click();
  await page.getByText('Nothing: all servers do what they should.').waitFor();
});

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { FOUR_SERVERS } from '../support/four-servers.ts';
import { PersonTerminal } from '../support/person-terminal.ts';
import { ConsoleBrowser } from './console.ts';

const cwd = mkdtempSync(join(tmpdir(), 'trunkline-tour-'));
const write = (config: object): void => writeFileSync(join(cwd, 'trunkline.json'), JSON.stringify(config));
let terminal: PersonTerminal;
let browser: ConsoleBrowser;
before(async () => {
  write(FOUR_SERVERS);
  terminal = await PersonTerminal.open(['--port', '0', '--control-port', '0', '--data-dir', join(cwd, 'data')], {
    cwd,
    columns: 160,
    rows: 30,
    env: { HOME: cwd, XDG_CONFIG_HOME: '' },
  });
  const screen = await terminal.sees(/Console +http\S+/);
  browser = await ConsoleBrowser.openLink(/Console +(http\S+)/.exec(screen)![1]!);
});
after(async () => {
  await browser?.close();
  await terminal?.end();
  rmSync(cwd, { recursive: true, force: true });
});

test("a newcomer's tour: four servers, a call, a server that breaks, why, and its repair", async () => {
  const { page } = browser;
  const navigation = page.getByRole('navigation', { name: 'Pages' });
  await page.getByText('Nothing needs attention.').waitFor({ timeout: 45_000 });
  await navigation.getByRole('link', { name: 'Servers' }).click();
  const table = page.getByRole('grid', { name: 'Servers' });
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
  write({ mcpServers: { ...others, memory: { ...memory, command: 'no-such-program' } } });
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

  write(FOUR_SERVERS);
  await heading.getByText('running').waitFor({ timeout: 45_000 });
  await navigation.getByRole('link', { name: 'Overview' }).click();
  await page.getByText('Nothing needs attention.').waitFor();
});

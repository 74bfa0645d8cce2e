import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({
    config: {
      $schema: 'trunkline',
      mcpServers: { side: manySided('side'), other: manySided('other') },
      agents: { narrow: { key: 'a-key-of-an-agent-1', servers: ['side'] } },
    },
  });
  await gateway.ready();
  browser = await ConsoleBrowser.open(gateway);
  browser.page.setDefaultTimeout(8_000);
});
after(async () => {
  try {
    await browser?.close();
  } finally {
    await gateway?.dispose();
  }
});

async function open(query: string): Promise<void> {
  await browser.visit('#/');
  await browser.visit(`#/playground?${query}`);
  await browser.page.getByText('The same call elsewhere').click();
}

test('the same call as a command, with curl and as a test', async () => {
  const { page } = browser;
  const args = `&args=${encodeURIComponent('{"text":"it\'s here"}')}`;
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-play-'));
  try {
    for (const era of ['2026-07-28', '2025-06-18']) {
      await open(`server=side&tool=echo${args}&revision=${era}`);
      await page.getByRole('button', { name: 'Call', exact: true }).click();
      await page.getByRole('status', { name: 'Answer' }).getByText("it's here").waitFor();
      const text = async (form: string): Promise<string> => {
        await page.getByRole('button', { name: form }).click();
        return page.locator('pre[data-form]').innerText();
      };
      await page.getByText('No command makes this call: commands do not choose a revision').waitFor();
      assert.ok(await page.getByRole('button', { name: 'Command' }).isDisabled());
      const key: NodeJS.ProcessEnv = { ...process.env, TRUNKLINE_KEY: 'a-key-of-an-agent-1' };
      const curl = (await text('curl')).replaceAll('curl -sS', 'curl -sS -H "Authorization: Bearer $TRUNKLINE_KEY"');
      assert.match(execFileSync('bash', ['-c', curl], { encoding: 'utf8', env: key }), /it's here/, era);
      const file = join(folder, 'played.test.mjs');
      writeFileSync(
        file,
        (await text('Test file')).replace(
          'headers: {',
          'headers: { Authorization: `Bearer ${process.env.TRUNKLINE_KEY}`,',
        ),
      );
      const { NODE_TEST_CONTEXT: _, ...env } = key;
      assert.match(execFileSync(process.execPath, ['--test', file], { encoding: 'utf8', env }), /pass 1/);
      const speaks = page.getByText(`The test speaks 2026-07-28, not ${era}.`);
      assert.equal(await speaks.count(), era === '2026-07-28' ? 0 : 1);
    }
    for (const [query, why] of [
      ['&as=narrow', 'commands call as the operator'],
      ['&endpoint=other', 'commands call side at its own endpoint'],
      ['&node=green', 'commands call at the node where they run'],
    ] as const) {
      await open(`server=side&tool=echo${args}${query}`);
      await page.getByText(`No command makes this call: ${why}.`).waitFor();
    }
    await page.getByText("The address is that of this page's node, not of green.").waitFor();
    await open(`server=side&tool=echo${args}`);
    const command = await page.locator('pre[data-form="command"]').innerText();
    assert.equal(command, `trunkline call side.echo --json '{"text":"it'\\''s here"}'`);
    assert.equal(await page.getByText(/No command makes/).count(), 0);
    const called = await trunkline(['call', 'side.echo', '--json', '{"text":"it\'s here"}', '--data-dir', 'data'], {
      cwd: gateway.folder,
    });
    assert.deepEqual([called.code, /it's here/.test(called.out)], [0, true], called.out + called.err);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a name of a server does not run in the shell that a copied call is pasted into', async () => {
  const { page } = browser;
  const uri = 'note://$(touch one)`touch two`/$HOME"; touch three; "';
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-play-'));
  try {
    for (const era of ['2026-07-28', '2025-06-18']) {
      await open(`method=resources/read&target=${encodeURIComponent(uri)}&revision=${era}`);
      await page.getByRole('button', { name: 'curl' }).click();
      const curl = await page.locator('pre[data-form]').innerText();
      assert.ok(curl.includes('touch one'));
      spawnSync('sh', ['-c', curl], { cwd: folder });
      assert.deepEqual(readdirSync(folder), [], era);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { AppHost } from '../support/app-host/app-host.ts';
import { installApps, OFFICIAL_APPS, problemsOf } from '../support/app-host/official-apps.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const FIXTURE = resolve(import.meta.dirname, '../fixtures/apps/server.ts');

/** Waits for what the fixture's app shows. */
async function shownBy(host: AppHost, tool: string): Promise<Record<string, unknown>> {
  const output = host.frame(tool).locator('output:not(:empty)');
  return JSON.parse(await output.innerText()) as Record<string, unknown>;
}

describe('MCP Apps of two servers with one address, in a real Chromium', { timeout: 120_000 }, () => {
  let host: AppHost;
  let gateway: RunningGateway;
  before(async () => {
    host = await AppHost.start();
    const server = (...args: string[]) => ({ command: process.execPath, args: [FIXTURE, ...args] });
    gateway = await RunningGateway.start({
      config: {
        listen: { allowedOrigins: [host.origin] },
        mcpServers: { one: server('one', 'text'), two: server('two', 'blob') },
      },
    });
    await gateway.ready();
  });
  after(async () => {
    await host.close();
    await gateway.dispose();
  });

  test('check:D5 each app is shown behind /mcp, and its calls reach its own server, with both open', async () => {
    assert.deepEqual(await host.connect(gateway.mcpUrl, ['one', 'two']), [
      'one__who',
      'one__app_only',
      'two__who',
      'two__app_only',
    ]);
    const input = { 'tools/call': 'who' };
    for (const tool of ['one__who', 'two__who']) await host.open(tool, input);
    for (const label of ['two', 'one']) {
      const tool = `${label}__who`;
      assert.deepEqual(await shownBy(host, tool), {
        tool: 'who',
        called: `${label} ${JSON.stringify(input)}`,
        hidden: `hidden of ${label}`,
        read: { uri: 'note://unlisted', text: `note of ${label}` },
        own: 'ui://who/app.html',
        mode: 'CSS1Compat',
        lang: 'ené',
        framed: true,
        unknown: 'undefined',
        theme: 'light',
      });
      const { uri, contentUri, requests } = await host.app(tool);
      assert.equal(uri, `ui://trunkline/${label}/who/app.html`);
      assert.equal(contentUri, uri);
      assert.deepEqual(
        requests.map(({ method, params }) => `${method} ${params['name'] ?? params['uri']}`),
        [
          `tools/call ${tool}`,
          `tools/call ${label}__app_only`,
          `resources/read trunkline://${label}/note://unlisted`,
          `resources/read ui://trunkline/${label}/who/app.html`,
        ],
      );
    }
    assert.deepEqual(host.errors, []);
  });
});

/** For all official servers: `npm run prove -- soak --goal apps`. */
const FEW = ['basic-react', 'basic-vanillajs', 'debug', 'system-monitor'];

test('check:D5 official app servers, two of which have one address and one tool name, are shown and served behind /mcp', {
  timeout: 400_000,
}, async (context) => {
  const apps = OFFICIAL_APPS.filter(({ name }) => FEW.includes(name));
  const installed = await installApps(apps);
  if (typeof installed === 'string') {
    context.skip(`the official app servers could not be installed: ${installed}`);
    return;
  }
  const host = await AppHost.start();
  const config = { listen: { allowedOrigins: [host.origin] }, mcpServers: installed.definitions };
  const gateway = await RunningGateway.start({ config });
  try {
    await gateway.ready();
    await host.connect(gateway.mcpUrl, FEW);
    assert.deepEqual(await problemsOf(host, apps, installed), []);
  } finally {
    await host.close();
    await gateway.dispose();
    installed.dispose();
  }
});

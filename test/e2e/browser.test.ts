import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { RunningGateway } from '../support/running-gateway.ts';

const PLAYWRIGHT = resolve(import.meta.dirname, '../../node_modules/.bin/playwright-mcp');
const PAGE = `<!doctype html><title>Exchange</title><button onclick="fetch('/pressed',{method:'POST'}).then(()=>{document.title='Connected';this.textContent='Connected'})">Connect me</button>`;

test("check:B13 Playwright's server drives a page in a real Chromium through the gateway", {
  timeout: 120_000,
}, async () => {
  let pressed = 0;
  const site = createServer((request, response) => {
    if (request.url === '/pressed') pressed++;
    response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE);
  });
  await new Promise<void>((done) => site.listen(0, '127.0.0.1', done));
  const args = ['--headless', '--no-sandbox', '--isolated', '--executable-path', '/usr/bin/chromium'];
  const gateway = await RunningGateway.start({ config: { mcpServers: { browser: { command: PLAYWRIGHT, args } } } });
  const client = new Client({ name: 'browser-test', version: '1' });
  try {
    await gateway.ready();
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.mcpUrl)));
    const call = async (name: string, input: Record<string, unknown>) => {
      const result = await client.callTool({ name: `browser__${name}`, arguments: input });
      const text = JSON.stringify(result.content);
      assert.notEqual(result.isError, true, text);
      return text;
    };
    await call('browser_navigate', { url: `http://127.0.0.1:${(site.address() as AddressInfo).port}/` });
    const snapshot = await call('browser_snapshot', {});
    const ref = /button \\?"Connect me\\?" \[ref=(\w+)\]/.exec(snapshot)?.[1];
    assert.ok(ref !== undefined, snapshot);
    await call('browser_click', { element: 'the button', target: ref, ref });
    const after = await call('browser_wait_for', { text: 'Connected' });
    assert.ok(after.length > 0);
    assert.equal(pressed, 1);
    await call('browser_close', {});
  } finally {
    await client.close();
    await gateway.dispose();
    site.closeAllConnections();
    site.close();
  }
});

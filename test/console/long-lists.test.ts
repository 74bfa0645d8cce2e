import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

const TOOLS = 1_000;
const CALLS = 10_000;
const AT_ONCE = 50;
const SERVER = `
const { createInterface } = require('node:readline');
const tools = Array.from({ length: ${TOOLS} }, (_, i) => ({ name: 'tool-' + i, description: 'Tool ' + i, inputSchema: { type: 'object' } }));
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  const results = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'many', version: '1' } },
    'tools/list': { tools },
    'tools/call': { content: [{ type: 'text', text: String(params?.name) }] },
  };
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} }));
});`;

let gateway: RunningGateway;
let browser: ConsoleBrowser;
before(async () => {
  gateway = await RunningGateway.start({
    config: { mcpServers: { many: { command: process.execPath, args: ['-e', SERVER] } } },
  });
  await gateway.ready();
  const client = await WireClient.open(gateway.mcpUrl);
  for (let done = 0; done < CALLS; done += AT_ONCE) {
    await Promise.all(
      Array.from({ length: AT_ONCE }, (_, i) => client.callText(`many__tool-${(done + i) % TOOLS}`, {})),
    );
  }
  browser = await ConsoleBrowser.open(gateway);
});
after(async () => {
  await browser?.close();
  await gateway?.dispose();
});

/** Times are printed, not asserted: other work of the machine counts into them. */
test('pages of 1,000 tools and 10,000 calls keep few rows in the document, while lists scroll', async (t) => {
  const { page } = browser;
  const { calls } = await gateway.control<Json>(`/api/v1/calls?limit=${CALLS}`);
  assert.equal(calls.length, CALLS);
  for (const view of ['#/tools', '#/timeline', '#/servers/many', '#/']) {
    await page.evaluate(() => {
      const durations: number[] = [];
      Object.assign(window, { durations });
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) durations.push(Math.round(entry.duration));
      }).observe({ type: 'longtask' });
    });
    await browser.visit(view);
    await page.getByRole('heading', { level: 1 }).waitFor();
    for (let step = 0; step < 20; step++) {
      await page.mouse.move(640, 500);
      await page.mouse.wheel(0, 600);
      await page.waitForTimeout(50);
    }
    const { durations, elements } = await page.evaluate(() => ({
      durations: (window as unknown as { durations: number[] }).durations,
      elements: document.querySelectorAll('*').length,
    }));
    t.diagnostic(`${view}: ${elements} elements, long tasks in ms: ${durations.join(', ') || 'none'}`);
    assert.ok(elements < 6_000, `${view}: ${elements} elements`);
  }
});

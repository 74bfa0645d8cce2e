import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

const TOOLS = 1_000;
const CALLS = 10_000;
const AT_ONCE = 50;
const MOST_ELEMENTS = 3_000;
const LONGEST_TASK_MS = 100;
const ROUNDS = 3;
/** The interval of the calls while a page is measured. */
const CALL_EVERY_MS = 20;
/** No page has this address. */
const ELSEWHERE = '#/elsewhere';
/** The number of changed definitions of a server that the gateway reports at once. */
const WAITING = 500;
/** Pages beside those of the navigation. */
const DETAILS = [
  '#/servers/many',
  '#/tools/many/tool-7',
  '#/playground?server=many&tool=tool-7',
  '#/drift/many',
  '#/access/anonymous',
];
const SERVER = `
const { createInterface } = require('node:readline');
const toolsOf = (words) => Array.from({ length: ${TOOLS} }, (_, i) => ({ name: 'tool-' + i, description: words + i, inputSchema: { type: 'object' } }));
let tools = toolsOf('Tool ');
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (params?.arguments?.words !== undefined) {
    tools = toolsOf(params.arguments.words);
    console.log(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }));
  }
  const results = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'many', version: '1' } },
    'tools/list': { tools },
    'tools/call': { content: [{ type: 'text', text: String(params?.name) }] },
  };
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} }));
});`;

let gateway: RunningGateway;
let browser: ConsoleBrowser;
let client: WireClient;
before(async () => {
  gateway = await RunningGateway.start({
    config: { mcpServers: { many: { command: process.execPath, args: ['-e', SERVER] } } },
  });
  await gateway.ready();
  client = await WireClient.open(gateway.mcpUrl);
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

/** Shows the view and scrolls, while calls come; the best round counts. */
async function measure(view: string, t: TestContext): Promise<void> {
  let [calls, measuring] = [0, true];
  const calling = (async () => {
    for (; measuring; calls++) {
      await client.request('tools/call', { name: `many__tool-${calls % TOOLS}`, arguments: {} });
      await sleep(CALL_EVERY_MS);
    }
  })();
  try {
    await measureRounds(view, t);
  } finally {
    measuring = false;
    await calling;
  }
  assert.ok(calls > 10, `${calls} calls`);
}

async function measureRounds(view: string, t: TestContext): Promise<void> {
  const { page } = browser;
  const heading = page.getByRole('heading', { level: 1 });
  const longest: number[] = [];
  while (longest.length < ROUNDS && !longest.some((ms) => ms <= LONGEST_TASK_MS)) {
    await browser.visit(ELSEWHERE);
    await heading.waitFor({ state: 'detached' });
    const ms = await browser.longestTask(async () => {
      await browser.visit(view);
      await heading.waitFor();
      for (let step = 0; step < 10; step++) {
        await page.mouse.move(640, 500);
        await page.mouse.wheel(0, 1_200);
        await page.waitForTimeout(50);
      }
    });
    longest.push(ms);
  }
  const elements = await page.evaluate(() => document.querySelectorAll('*').length);
  t.diagnostic(`${view}: ${elements} elements, longest task of each round in ms: ${longest.join(', ')}`);
  assert.ok(elements < MOST_ELEMENTS, `${view}: ${elements} elements`);
  assert.ok(Math.min(...longest) <= LONGEST_TASK_MS, `${view}: tasks of ${longest.join(', ')} ms`);
}

test('all pages, of 1,000 tools and 10,000 calls, keep few rows in the document, while lists scroll', async (t) => {
  const { calls } = await gateway.control<Json>(`/api/v1/calls?limit=${CALLS}`);
  assert.equal(calls.length, CALLS);
  const links = browser.page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
  const pages = await links.evaluateAll((all) => all.map((link) => link.getAttribute('href')!));
  assert.ok(pages.includes('#/') && pages.includes('#/timeline'), pages.join(' '));
  for (const view of [...pages, ...DETAILS]) await measure(view, t);
});

test('the page of drift does so when all 1,000 tools have other descriptions, and shows the rest on demand', async (t) => {
  const { page } = browser;
  await client.callText('many__tool-0', { words: 'Another tool ' });
  await browser.visit('#/drift');
  await page.getByRole('button', { name: `Approve all ${WAITING}` }).waitFor();
  for (const view of ['#/', '#/drift']) await measure(view, t);
  const waiting = page.getByRole('article');
  await waiting.first().waitFor();
  const seen = await waiting.count();
  const first = await waiting.first().getAttribute('aria-label');
  await page.getByText(`1–${seen} of ${WAITING}`).waitFor();
  await page.getByRole('button', { name: 'Later definitions' }).click();
  await page.getByText(`${seen + 1}–${2 * seen} of ${WAITING}`).waitFor();
  assert.notEqual(await waiting.first().getAttribute('aria-label'), first);
  await page.getByRole('button', { name: 'Earlier definitions' }).click();
  await page.getByRole('article', { name: first! }).waitFor();
});

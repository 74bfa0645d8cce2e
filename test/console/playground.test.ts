import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import type { Frame, Page } from 'playwright-core';
import { ClusterProcesses, until } from '../support/cluster-processes.ts';
import { manySided } from '../support/many-sided.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { ConsoleBrowser } from './console.ts';

const EVERYTHING = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/dist/index.js');
const fixture = (path: string): string => resolve(import.meta.dirname, '../fixtures', path);

let gateway: RunningGateway;
let browser: ConsoleBrowser;
let page: Page;
before(async () => {
  gateway = await RunningGateway.start({
    config: {
      $schema: 'trunkline',
      mcpServers: {
        everything: { command: process.execPath, args: [EVERYTHING] },
        modern: { command: process.execPath, args: [fixture('matrix/stdio.ts'), '2026-07-28'] },
        side: manySided('side'),
        gone: { url: 'http://127.0.0.1:1/mcp' },
        hostile: { command: process.execPath, args: [fixture('stdio/hostile.mjs')] },
        app: { command: process.execPath, args: [fixture('apps/server.ts'), 'app', 'text'], isolation: 'shared' },
      },
      agents: { narrow: { key: 'a-key-of-an-agent-1', servers: ['side'] } },
    },
  });
  await gateway.ready('everything', 'modern', 'side', 'hostile', 'app');
  browser = await ConsoleBrowser.open(gateway);
  page = browser.page;
  page.setDefaultTimeout(8_000);
});
after(async () => {
  try {
    await browser?.close();
  } finally {
    await gateway?.dispose();
  }
});

async function open(server: string, tool: string, query = ''): Promise<void> {
  await browser.visit('#/');
  await browser.visit(`#/playground?server=${server}&tool=${tool}${query}`);
  await page.getByRole('button', { name: 'Call', exact: true }).waitFor();
}

async function call(): Promise<void> {
  await page.getByRole('button', { name: 'Call', exact: true }).click();
}

const answer = () => page.getByRole('status', { name: 'Answer' });

test('the form of a tool is checked, filled and sent, and the URL keeps its arguments', async () => {
  await open('everything', 'get-sum');
  await call();
  await page.getByText('This is required').first().waitFor();
  await page.getByRole('alert').getByText('2 values are not right: a, b', { exact: true }).waitFor();
  await page.getByLabel(/^a\b/).fill('2.5');
  await page.getByLabel(/^b\b/).fill('x');
  await page.getByText('This has to be a number').waitFor();
  await page.getByLabel(/^b\b/).fill('4');
  await call();
  await answer()
    .getByText(/2\.5 and 4 is 6\.5/)
    .waitFor();
  await answer().getByText('RESULT').waitFor();
  assert.deepEqual(JSON.parse(new URLSearchParams(page.url().split('?')[1]).get('args')!), { a: 2.5, b: 4 });
  await page.reload();
  assert.equal(await page.getByLabel(/^a\b/).inputValue(), '2.5');
  await page.getByRole('button', { name: 'As JSON' }).click();
  const raw = page.getByLabel('Arguments as JSON');
  await raw.fill('{"a": 1,');
  await page.getByText(/This is no JSON/).waitFor();
  await raw.fill('{"a": 12345678901234567890, "b": 1}');
  await call();
  await page.getByText(/The wire: \d+ messages/).waitFor();
  const { calls } = await gateway.control<{ calls: { client: string; name: string }[] }>('/api/v1/calls?limit=5');
  assert.ok(calls.some(({ client, name }) => client === 'trunkline-playground 1' && name === 'get-sum'));
});

test('progress is shown as it arrives, and Cancel cancels a call at its server', async () => {
  await open('everything', 'trigger-long-running-operation', `&args=${encodeURIComponent('{"duration":2,"steps":4}')}`);
  await call();
  await page.getByText(/\d of 4/).waitFor();
  await answer()
    .getByText(/completed/)
    .waitFor();
  await open('modern', 'hold', `&args=${encodeURIComponent('{"key":"page"}')}`);
  await call();
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  await answer().getByText('CANCELLED').waitFor();
  await open('modern', 'held', `&args=${encodeURIComponent('{"key":"page"}')}`);
  await call();
  await answer().getByText('cancelled', { exact: true }).waitFor();
});

for (const era of ['2025-11-25', '2026-07-28']) {
  test(`elicitation and sampling of a real server are answered in place in ${era}`, async () => {
    await open('everything', 'trigger-elicitation-request', `&revision=${era}`);
    await call();
    const question = page.getByRole('region', { name: 'The server asks: elicitation/create' });
    await question.getByLabel(/^name\b/).fill('Ada Lovelace');
    await question.getByRole('button', { name: 'Send the answer' }).click();
    await answer()
      .getByText(/Ada Lovelace/)
      .first()
      .waitFor();
    await open(
      'everything',
      'trigger-sampling-request',
      `&revision=${era}&args=${encodeURIComponent('{"prompt":"say it"}')}`,
    );
    await call();
    const asked = page.getByRole('region', { name: 'The server asks: sampling/createMessage' });
    await asked.getByText(/say it/).waitFor();
    await asked.getByLabel('Your answer in the place of the model').fill('said by a person');
    await asked.getByRole('button', { name: 'Send the answer' }).click();
    await answer()
      .getByText(/said by a person/)
      .waitFor();
  });
}

test('an elicitation is declined, and images and errors are shown as such', async () => {
  await open('everything', 'trigger-elicitation-request');
  await call();
  await page.getByRole('button', { name: 'Decline' }).click();
  await answer()
    .getByText(/declined/i)
    .first()
    .waitFor();
  await open('everything', 'get-tiny-image');
  await call();
  await answer().getByRole('img').waitFor();
  assert.ok(
    await answer()
      .getByRole('img')
      .evaluate((image) => (image as HTMLImageElement).naturalWidth > 0),
  );
  await open('modern', 'throw');
  await call();
  await answer().getByText('Error 31999: of my own').waitFor();
  await open('side', 'none');
  await call();
  await answer()
    .getByText(/Unknown tool/)
    .waitFor();
});

test('a failed call shows the reason, and the answer of an earlier call is marked as such', async () => {
  await open('side', 'echo', `&args=${encodeURIComponent('{"text":"of the first"}')}`);
  await call();
  await answer().getByText('of the first').waitFor();
  const earlier = page.getByText('From an earlier call: tools/call side__echo at /mcp');
  assert.equal(await earlier.count(), 0);
  await page.getByLabel('Connected to').selectOption('gone');
  await earlier.waitFor();
  await page.getByText('gone offers no tools: its state is failed.').waitFor();
  await call();
  await answer().getByText('NOT_SENT', { exact: true }).waitFor();
  assert.equal(await earlier.count(), 0);
  const said = (await answer().textContent())!;
  assert.match(said, /it may be repeated\. \(took \d+ ms\)Error \d+: .*ECONNREFUSED/);
});

test('an agent sees and may call what it is allowed, at an endpoint of its choice', async () => {
  await open(
    'side',
    'echo',
    `&args=${encodeURIComponent('{"text":"as an agent"}')}&as=narrow&endpoint=side&revision=2026-07-28`,
  );
  await call();
  await answer().getByText('as an agent').waitFor();
  await open('modern', 'echo', '&as=narrow&endpoint=modern');
  await call();
  await answer().getByText('there is no server "modern" for narrow').waitFor();
  await open('modern', 'echo', '&as=narrow');
  await call();
  await answer().getByText('REFUSED').waitFor();
  await answer()
    .getByText(/Access denied: agent 'narrow'/)
    .waitFor();
  await browser.visit('#/playground?method=tools/list&as=narrow');
  await call();
  await answer().getByText('side__echo').waitFor();
  assert.equal(await answer().getByText('modern__').count(), 0);
  await browser.visit('#/playground?method=resources/read&target=trunkline://side/side://side/doc');
  await call();
  await answer().getByText('read by side').waitFor();
});

/** The answers of the host to an app that sends these requests at once: `a result` or the message of the error. */
function askedBy(app: Frame, requests: readonly (readonly [string, object])[]): Promise<string[]> {
  return app.evaluate(
    (all) =>
      Promise.all(
        all.map(([method, params], i) => {
          const id = `${method} ${i} ${Math.random()}`;
          return new Promise<string>((done) => {
            addEventListener('message', ({ data }) => {
              if (data.id === id) done(data.error?.message ?? 'a result');
            });
            parent.postMessage({ jsonrpc: '2.0', id, method, params }, '*');
          });
        }),
      ),
    requests,
  );
}

/** Whether a worker of the app, which has the policy of its document, reaches another service of this machine. */
async function reachedByWorker(app: Frame, t: TestContext): Promise<string> {
  const service = createServer((_, response) => response.end()).listen(0, '127.0.0.1');
  t.after(() => void service.close());
  await once(service, 'listening');
  return app.evaluate(
    (port) =>
      new Promise<string>((done) => {
        const code = `fetch('http://127.0.0.1:${port}', { mode: 'no-cors' }).then(() => postMessage('reached'), () => postMessage('refused'))`;
        const worker = new Worker(URL.createObjectURL(new Blob([code])));
        worker.onmessage = ({ data }) => done(data);
        worker.onerror = () => done('no worker');
      }),
    (service.address() as AddressInfo).port,
  );
}

test('an MCP App is shown in a frame that shares nothing with the console', async (t) => {
  await open('app', 'who', `&args=${encodeURIComponent('{"tools/call":"who"}')}`);
  await call();
  const frame = page.frameLocator('iframe.app-frame');
  const output = frame.locator('output:not(:empty)');
  const shown = JSON.parse(await output.innerText());
  assert.equal(shown.tool, 'who');
  assert.equal(shown.theme, 'light');
  assert.equal(shown.unknown, 'undefined');
  assert.equal(shown.called, 'app {"tools/call":"who"}');
  assert.equal(shown.hidden, 'hidden of app');
  assert.deepEqual(shown.read, { uri: 'note://unlisted', text: 'note of app' });
  const inside = page.frames().find((one) => one.url().includes('/app-frames/'))!;
  assert.equal(await inside.evaluate(() => origin), 'null');
  for (const forbidden of ['document.cookie', 'localStorage.length', 'parent.document.title']) {
    const tried = inside.evaluate((code) => new Function(`return ${code}`)(), forbidden);
    await assert.rejects(tried, /SecurityError|sandboxed|Blocked/, forbidden);
  }
  for (const uri of ['trunkline://side/side://side/doc', 'ui://trunkline/side/x', 'skill://trunkline/appx/y'])
    assert.deepEqual(await askedBy(inside, [['resources/read', { uri }]]), [
      'an app reads resources of its own server only',
    ]);
  // Sent without the gateway's script, which adds the server: the host takes a bare URI for another server's.
  const bare = await inside.evaluate(
    (message) =>
      new Promise<string>((done) => {
        addEventListener('message', ({ data }) => {
          if (data.id === message.id) done(data.error?.message ?? 'a result');
        });
        top!.postMessage(message, '*');
      }),
    { jsonrpc: '2.0', id: 'bare', method: 'resources/read', params: { uri: 'side://side/doc' } },
  );
  assert.equal(bare, 'an app reads resources of its own server only');
  const who = ['tools/call', { name: 'who', arguments: {} }] as const;
  const many = await askedBy(
    inside,
    Array.from({ length: 35 }, () => who),
  );
  assert.deepEqual(many.toSorted(), ['32 requests of this app wait already', ...Array(34).fill('a result')]);
  assert.equal(await reachedByWorker(inside, t), 'refused');
  const again = await fetch(inside.url());
  assert.equal(again.status, 404, 'the address of an app works once');
  const inner = ['http://127.0.0.1:80', 'ws://localhost', 'https://*.com', 'http://10.0.0.1', 'http://2130706433'];
  const csp = { connectDomains: ['https://api.example.com', "https://x; script-src 'self'", ...inner] };
  const { path } = await gateway.control<{ path: string }>(
    '/api/v1/apps',
    'POST',
    JSON.stringify({ html: '<p>', csp }),
  );
  const policy = (await fetch(new URL(path, gateway.controlUrl))).headers.get('content-security-policy')!;
  assert.match(policy, /^sandbox allow-scripts; default-src 'none'; /);
  assert.match(policy, /; connect-src https:\/\/api\.example\.com; /);
  const long = JSON.stringify({ html: 'x'.repeat(8 * 1_024 * 1_024 + 1) });
  await assert.rejects(gateway.control('/api/v1/apps', 'POST', long), /8 MiB/);
});

test('schemas and answers of the wrong kind neither hold up the page nor empty it', async () => {
  for (const tool of ['grow', 'union', 'empty', 'slow']) {
    await open('hostile', tool, tool === 'union' ? '&args=%7B%22one%22%3A1%7D' : '');
    await call();
    if (tool === 'grow') await page.getByRole('button', { name: 'Call all the same' }).click();
    await answer().getByText('came').waitFor();
    await answer().getByText('null').waitFor();
    await browser.visit(`#/tools/hostile/${tool}`);
    await page.getByRole('heading', { name: 'Arguments' }).waitFor();
  }
  await open('hostile', 'sample');
  await call();
  const asked = page.getByRole('region', { name: 'The server asks: sampling/createMessage' });
  await asked.getByLabel('Your answer in the place of the model').fill('x');
  await asked.getByRole('button', { name: 'Send the answer' }).click();
  await answer().getByText('asked').waitFor();
  await open('hostile', 'app');
  await call();
  await page.frameLocator('iframe.app-frame').getByText('here').waitFor();
  const inside = page.frames().find((one) => one.url().includes('/app-frames/'))!;
  const sample = ['tools/call', { name: 'sample', arguments: {} }] as const;
  assert.match((await askedBy(inside, [sample]))[0]!, /asks sampling\/createMessage, which this call cannot answer/);
  await browser.visit('#/');
  await browser.visit('#/playground?server=hostile&tool=broken');
  await page.getByRole('alert').getByText('Playground could not be shown').waitFor();
  await open('side', 'echo');
});

test('the playground is accessible, and fits a phone', async () => {
  await open('everything', 'get-sum', `&args=${encodeURIComponent('{"a":2,"b":4}')}`);
  await call();
  await answer().getByText(/is 6/).waitFor();
  await browser.screenshots('playground');
  await browser.assertAccessible();
});

test('a call is made at the node of a cluster that is chosen', async () => {
  const nodes = await ClusterProcesses.start();
  let other: ConsoleBrowser | null = null;
  try {
    const a = await nodes.node('a', {});
    const b = await nodes.node('b', { side: manySided('side') });
    await until(async () => (await a.servers()).includes('side'), 'node a to know the server');
    other = await ConsoleBrowser.open(a.gateway, '#/playground?server=side&tool=ask');
    await other.page.getByLabel('At node').selectOption('b');
    await other.page.getByRole('button', { name: 'Call', exact: true }).click();
    await other.page.getByRole('button', { name: 'Decline' }).click();
    await other.page
      .getByRole('status', { name: 'Answer' })
      .getByText(/decline/)
      .waitFor();
    const { calls } = await b.control<{ calls: { name: string; node: string }[] }>('/api/v1/calls?node=b');
    assert.deepEqual(
      calls.map(({ name, node }) => [name, node]),
      [['ask', 'b']],
    );
  } finally {
    await other?.close();
    await nodes.dispose();
  }
});

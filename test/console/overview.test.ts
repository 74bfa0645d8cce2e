import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProtectedServer } from '../fixtures/oauth/protected-server.ts';
import { freePort } from '../support/free-port.ts';
import { manySided } from '../support/many-sided.ts';
import { eventually } from '../support/nats-cluster.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { ConsoleBrowser } from './console.ts';

test('the overview: what needs attention with its remedy, what is connected, rates and latency, as they change', async (t) => {
  const locked = await ProtectedServer.start();
  const good = manySided('good');
  const config = (dead: object) => ({ mcpServers: { good, dead, locked: { type: 'http', url: locked.url } } });
  const gateway = await RunningGateway.start({ config: config({ command: 'no-such-program' }) });
  try {
    await gateway.ready('good');
    const browser = await ConsoleBrowser.open(gateway);
    t.after(() => browser.close());
    const { page } = browser;
    const attention = page.getByRole('region', { name: 'Needs attention' });
    const dead = attention.getByRole('listitem').filter({ hasText: /dead (?:has|is) \w+/ });
    await dead.getByText('no-such-program').waitFor();
    const login = attention.getByRole('listitem').filter({ hasText: 'locked needs a sign-in' });
    await login.getByText('trunkline login locked', { exact: true }).waitFor();

    const history = async () => (await gateway.control<{ history: unknown[] }>('/api/v1/servers/dead')).history.length;
    const before = await history();
    await dead.getByRole('button', { name: 'Restart', exact: true }).click();
    await page
      .getByRole('status')
      .filter({ hasText: /dead (?:has|is) \w+/ })
      .waitFor();
    assert.ok((await history()) > before, 'the server was not tried again');

    const client = await WireClient.open(gateway.mcpUrl);
    const picture = page.getByRole('region', { name: 'What is connected' });
    const calling = setInterval(() => void client.callText('good__echo', { text: 'x' }), 100);
    try {
      await picture.getByRole('link', { name: /^wire 1 1 session/ }).waitFor();
      // Beside the client and beside the server.
      await picture
        .getByText(/\d\/s \d/)
        .nth(1)
        .waitFor();
      const info = { 'io.modelcontextprotocol/clientInfo': { name: 'modern', version: '2' } };
      const modern = new WireClient(gateway.mcpUrl, 'stateless');
      await modern.result('tools/call', { name: 'good__echo', arguments: { text: 'x' }, _meta: info });
      await picture.getByRole('link', { name: /^modern 2 no session, 2026-07-28/ }).waitFor();
      const rate = page.locator('dl.figures div').filter({ hasText: 'Calls per second' }).locator('dd');
      await page.waitForFunction((text) => Number(text?.textContent) > 1, await rate.elementHandle());
      await page.waitForFunction(() => document.querySelector('.latency-chart canvas') !== null);
      await page.waitForTimeout(3_000);
      await browser.assertAccessible();
      await browser.screenshots('overview');
    } finally {
      clearInterval(calling);
    }

    gateway.rewrite(config(manySided('dead')));
    await dead.waitFor({ state: 'detached' });
    await picture.getByRole('link', { name: /^dead \d+ tools/ }).click();
    assert.equal(await page.evaluate(() => location.hash), '#/servers/dead');
  } finally {
    await gateway.dispose();
    await locked.stop();
  }
});

test('a server where nothing listens has its remedy, and its name once; pages report a gateway that does not answer', async (t) => {
  const place = `127.0.0.1:${await freePort()}`;
  const config = { mcpServers: { gone: { type: 'http', url: `http://${place}/mcp` } } };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  const browser = await ConsoleBrowser.open(gateway);
  t.after(() => browser.close());
  const { page } = browser;
  const gone = page.getByRole('listitem').filter({ hasText: /gone (?:has|is) \w+/ });
  const words = `connect ECONNREFUSED ${place}; nothing listens at ${place}; start the server there, or correct`;
  await gone.getByText(words).waitFor();
  assert.ok((await gone.locator('p').innerText()).startsWith(words));

  const away = page.getByRole('alert').filter({ hasText: 'The gateway does not answer' });
  await page.route('**/api/v1/live*', (route) => route.abort());
  await page.reload();
  await away.getByText('trunkline', { exact: true }).waitFor();
  await browser.assertAccessible();
  await page.unroute('**/api/v1/live*');
  await away.waitFor({ state: 'detached' });
  await page.getByText('Live', { exact: true }).waitFor();
  await browser.visit('#/servers');
  await page.getByRole('heading', { level: 1, name: 'Servers' }).waitFor();
  await gateway.stop();
  await away.getByText(/What is shown is from \d\d:\d\d:\d\d and may be old/).waitFor();
});

test('lists are read when they change, once for events in a row; an older answer does not undo a newer one', async (t) => {
  const gateway = await RunningGateway.start({ config: { mcpServers: { good: manySided('good') } } });
  t.after(() => gateway.dispose());
  await gateway.ready('good');
  const browser = await ConsoleBrowser.open(gateway);
  t.after(() => browser.close());
  const { page } = browser;
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname.replace('/api/v1', '')));
  await page.waitForTimeout(1_500);
  asked.length = 0;
  // Events that do not change the data of the page.
  for (let times = 0; times < 5; times++) {
    const { id } = await gateway.control<{ id: string }>('/api/v1/recordings', 'POST', JSON.stringify({ client: 'x' }));
    await gateway.control(`/api/v1/recordings/${id}`, 'DELETE');
  }
  await page.waitForTimeout(1_500);
  assert.deepEqual(asked, []);

  await browser.visit('#/sessions');
  const row = (name: string) => page.getByRole('grid', { name: 'Sessions' }).getByRole('link', { name });
  const open = (name: string) => WireClient.open(gateway.mcpUrl, { name });
  await open('first');
  await row('first').waitFor();
  await page.route('**/api/v1/sessions', (route) => route.fulfill({ status: 503, json: { error: {} } }));
  const refused = page.waitForResponse((response) => response.status() === 503);
  await open('second');
  await refused;
  await page.waitForTimeout(200);
  assert.equal(await row('first').count(), 1, 'the old list stays if it cannot be read again');
  await page.unroute('**/api/v1/sessions');

  /** Holds back the next answer of the path once it has been requested. */
  const hold = async (path: string) => {
    const [asked, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await page.route(
      path,
      async (route) => {
        const response = await route.fetch();
        asked.resolve();
        await held.promise;
        await route.fulfill({ response });
      },
      { times: 1 },
    );
    return { asked: asked.promise, release: held.resolve };
  };
  const sessions = await hold('**/api/v1/sessions');
  await open('third');
  await sessions.asked;
  await open('fourth');
  await row('fourth').waitFor();
  sessions.release();
  await page.waitForTimeout(500);
  assert.equal(await row('fourth').count(), 1);

  const servers = await hold('**/api/v1/servers');
  await browser.visit('#/');
  await page.reload();
  await servers.asked;
  await gateway.control('/api/v1/servers/good/suspend', 'POST');
  const suspended = page.getByRole('link', { name: /^good suspended/ });
  await suspended.waitFor();
  servers.release();
  await page.waitForTimeout(500);
  assert.equal(await suspended.count(), 1);

  // As each node of a cluster begins its part of the stream.
  const hello = `data: ${JSON.stringify({ topic: 'hello', node: 'n', events: '' })}\n\n`;
  let streams = 0;
  await page.route('**/api/v1/live*', (route) => {
    streams++;
    return route.fulfill({ contentType: 'text/event-stream', body: hello.repeat(20) });
  });
  await page.reload();
  asked.length = 0;
  await page.waitForTimeout(2_000);
  const read = asked.filter((path) => path === '/servers').length;
  assert.ok(read > 0 && read <= streams, `${read} times in ${streams} streams`);
});

test('if the gateway has no stream left, the page reports it and still reads its lists', async (t) => {
  const gateway = await RunningGateway.start({ config: { mcpServers: { good: manySided('good') } } });
  t.after(() => gateway.dispose());
  await gateway.ready('good');
  const headers = { authorization: `Bearer ${gateway.token('control')}` };
  const taken = Array.from({ length: 64 }, () => fetch(`${gateway.controlUrl}/api/v1/live`, { headers }));
  for (const { status } of await Promise.all(taken)) assert.equal(status, 200);
  const browser = await ConsoleBrowser.open(gateway);
  t.after(() => browser.close());
  const { page } = browser;
  const refused = page.getByRole('alert').filter({ hasText: 'No changes arrive' });
  await refused.getByText('The stream of changes was refused: no more than 64 streams at once').waitFor();
  await page.getByRole('link', { name: /^good \d+ tools/ }).waitFor();
  for (const stream of taken) await (await stream).body!.cancel();
  await refused.waitFor({ state: 'detached' });
  await page.getByText('Live', { exact: true }).waitFor();
});

test('an overview that is opened later shows the latency of before, and draws no line where there were no calls', async () => {
  const gateway = await RunningGateway.start({ config: { mcpServers: { good: manySided('good') } } });
  try {
    await gateway.ready('good');
    const client = await WireClient.open(gateway.mcpUrl);
    const callThenQuiet = async (calls: number): Promise<void> => {
      await client.callText('good__echo', { text: 'x' });
      await eventually(async () => {
        const { nodes } = await gateway.control<{ nodes: { seconds: { calls: number }[] }[] }>('/api/v1/rates');
        const { seconds } = nodes[0]!;
        const counted = seconds.reduce((sum, second) => sum + second.calls, 0);
        assert.ok(counted === calls && seconds.slice(-6).every((second) => second.calls === 0));
      });
    };
    await callThenQuiet(1);
    await callThenQuiet(2);
    const browser = await ConsoleBrowser.open(gateway);
    try {
      const drawn = await browser.page.waitForFunction(() => {
        const canvas = document.querySelector<HTMLCanvasElement>('.latency-chart canvas');
        if (canvas == null) return false;
        const { width, height } = canvas;
        const { data } = canvas.getContext('2d')!.getImageData(0, 0, width, height);
        // Axes and grid are grey.
        const isInk = (at: number): boolean =>
          data[at + 3]! > 128 && Math.max(...data.slice(at, at + 3)) - Math.min(...data.slice(at, at + 3)) > 60;
        const columns = Array.from({ length: width }, (_, x) => x).filter((x) =>
          Array.from({ length: height }, (_, y) => 4 * (y * width + x)).some(isInk),
        );
        return columns.length > 0 && columns;
      });
      const columns = (await drawn.jsonValue()) as number[];
      const holes = columns.slice(1).filter((x, at) => x - columns[at]! > 8);
      assert.equal(holes.length, 1, `one hole: ${columns}`);
    } finally {
      await browser.close();
    }
  } finally {
    await gateway.dispose();
  }
});

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../support/free-port.ts';
import { manySided } from '../support/many-sided.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const [FIRST, SECOND] = ['first-scrape-token-0123', 'second-scrape-token-012'];
const mcpServers = { one: manySided('one') };

async function start(t: TestContext, config: object, env = {}): Promise<RunningGateway> {
  const gateway = await RunningGateway.start({ config: { mcpServers, ...config }, env });
  t.after(() => gateway.dispose());
  return gateway;
}

async function status(url: string, path: string, token?: string): Promise<number> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(new URL(path, url), { headers });
  const text = await answer.text();
  assert.equal(answer.status === 200 && path === '/metrics', text.startsWith('# HELP'));
  return answer.status;
}

test('metrics.token reads the metrics and nothing else, and a change of the file replaces it', async (t) => {
  const gateway = await start(t, { metrics: { token: '${SCRAPE}' } }, { SCRAPE: FIRST });
  const { controlUrl } = gateway;
  assert.equal(await status(controlUrl, '/metrics', FIRST), 200);
  assert.equal(await status(controlUrl, '/metrics'), 401);
  assert.equal(await status(controlUrl, '/metrics', SECOND), 401);
  for (const path of ['/api/v1/servers', '/api/v1/gateway', '/api/v1/events']) {
    assert.equal(await status(controlUrl, path, FIRST), 401, path);
  }
  gateway.rewrite({ mcpServers, metrics: { token: SECOND } });
  while ((await status(controlUrl, '/metrics', SECOND)) !== 200) await sleep(20);
  assert.equal(await status(controlUrl, '/metrics', FIRST), 401);
  assert.match(await gateway.metrics(), /^# HELP/);
  assert.ok(!gateway.stderr.includes(FIRST) && !gateway.stderr.includes(SECOND));
});

test('both control tokens read the metrics, with and without a metrics.token', async (t) => {
  for (const metrics of [{}, { metrics: { token: SECOND } }]) {
    const gateway = await start(t, { control: { token: FIRST }, ...metrics });
    assert.equal(await status(gateway.controlUrl, '/metrics', FIRST), 200);
    assert.equal(await status(gateway.controlUrl, '/metrics', SECOND), 'metrics' in metrics ? 200 : 401);
    assert.match(await gateway.metrics(), /^# HELP/);
  }
});

test('metrics.listen serves only the metrics, and needs a token only if metrics.token is set', async (t) => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const gateway = await start(t, { metrics: { listen: `127.0.0.1:${port}` } });
  assert.equal(await status(url, '/metrics'), 200);
  for (const path of ['/api/v1/servers', '/mcp', '/']) assert.equal(await status(url, path), 404, path);
  const rebound = await fetch(new URL('/metrics', gateway.controlUrl));
  assert.equal(rebound.status, 401);
  gateway.rewrite({ mcpServers, metrics: { listen: `127.0.0.1:${port}`, token: FIRST } });
  while ((await status(url, '/metrics')) !== 401) await sleep(20);
  assert.equal(await status(url, '/metrics', FIRST), 200);
  assert.equal(await gateway.stop(), 0);
});

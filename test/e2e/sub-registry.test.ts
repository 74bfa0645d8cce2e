import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const lazy = (name: string, more: object = {}) => ({ ...manySided(name), start: 'lazy', ...more });
const KEYS = { ada: 'key-of-ada-0123456789', bob: 'key-of-bob-0123456789' };

/** Of `many-sided.mjs`. */
const VERSION = '1';

async function served(t: TestContext, config: object, folder?: string) {
  const gateway = await RunningGateway.start({ config, ...(folder === undefined ? {} : { folder }) });
  t.after(() => gateway.dispose());
  const origin = new URL(gateway.mcpUrl).origin;
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(origin + path, { headers });
    const text = await response.text();
    return { status: response.status, headers: response.headers, json: JSON.parse(text), text };
  };
  return { gateway, origin, get };
}

// biome-ignore lint/suspicious/noExplicitAny: answers of a foreign format
const names = ({ json }: { json: any }): string[] => json.servers.map((one: any) => one.server.name);

test('servers of the gateway as a registry: pages, search, versions, with and without /v0.1', async (t) => {
  const mcpServers = {
    alpha: lazy('alpha', { description: 'The first.' }),
    beta: lazy('beta'),
    gamma: lazy('gamma'),
    off: lazy('off', { enabled: false }),
  };
  const { origin, get } = await served(t, { mcpServers });
  const probe = await get('/v0.1/servers?limit=1');
  assert.equal(probe.status, 200);
  assert.deepEqual(probe.json.metadata, { count: 1, nextCursor: 'localhost/alpha' });
  const { server, _meta } = probe.json.servers[0];
  assert.deepEqual(
    [server.name, server.description, server.version, server.remotes],
    ['localhost/alpha', 'The first.', '1.0.0', [{ type: 'streamable-http', url: `${origin}/servers/alpha/mcp` }]],
  );
  const { status, isLatest, updatedAt } = _meta['io.modelcontextprotocol.registry/official'];
  assert.deepEqual([status, isLatest], ['active', true]);

  const rest = await get(`/v0.1/v0.1/servers?limit=5&cursor=${encodeURIComponent('localhost/alpha')}`);
  assert.deepEqual([names(rest), rest.json.metadata], [['localhost/beta', 'localhost/gamma'], { count: 2 }]);
  assert.deepEqual(names(await get('/v0.1/servers?search=GAM&version=latest')), ['localhost/gamma']);
  assert.deepEqual(names(await get('/v0.1/servers?version=9.9.9')), []);
  const later = new Date(Date.parse(updatedAt) + 3_600_000).toISOString();
  assert.deepEqual(names(await get(`/v0.1/servers?updated_since=${later}`)), []);
  assert.equal(names(await get(`/v0.1/servers?updated_since=${updatedAt}`)).length, 3);

  for (const name of ['localhost%2Falpha', 'localhost%2falpha', 'localhost/alpha']) {
    assert.deepEqual(names(await get(`/v0.1/servers/${name}/versions`)), ['localhost/alpha'], name);
    for (const version of ['latest', '1.0.0'])
      assert.equal((await get(`/v0.1/servers/${name}/versions/${version}`)).json.server.name, 'localhost/alpha');
  }
  const missing = ['localhost%2Falph/versions', 'io.github.x%2Fy/versions/latest', 'localhost%2Falpha/versions/2.0.0'];
  for (const path of [...missing, 'localhost%2Foff/versions', 'localhost%2FALPHA/versions', '%/versions', 'alpha'])
    assert.equal((await get(`/v0.1/servers/${path}`)).status, 404, path);
  for (const query of ['limit=0', 'limit=x', 'updated_since=yesterday'])
    assert.equal((await get(`/v0.1/servers?${query}`)).status, 400, query);
});

test('a caller sees the servers that it may use; reading without a key is off unless it is allowed', async (t) => {
  const config = {
    mcpServers: { alpha: lazy('alpha'), beta: lazy('beta') },
    agents: { ada: { key: KEYS.ada }, bob: { key: KEYS.bob, servers: ['beta'] } },
    listen: { publicUrl: 'https://mcp.example.com/gw', allowedOrigins: ['https://app.example.com'] },
  };
  const { get } = await served(t, config);
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  const anonymous = await get('/v0.1/servers');
  assert.equal(anonymous.status, 401);
  assert.match(anonymous.headers.get('www-authenticate')!, /^Bearer/);
  assert.equal((await get('/v0.1/servers/com.example.mcp%2Fbeta/versions')).status, 401);
  assert.deepEqual(names(await get('/v0.1/servers', bearer(KEYS.ada))), [
    'com.example.mcp/alpha',
    'com.example.mcp/beta',
  ]);
  const own = await get('/v0.1/servers', { ...bearer(KEYS.bob), origin: 'https://app.example.com' });
  assert.equal(own.headers.get('access-control-allow-origin'), 'https://app.example.com');
  assert.deepEqual(names(own), ['com.example.mcp/beta']);
  assert.doesNotMatch(own.text, /key-of-|alpha/);
  const [remote] = own.json.servers[0].server.remotes;
  assert.equal(remote.url, 'https://mcp.example.com/gw/servers/beta/mcp');
  assert.deepEqual([remote.headers[0].name, remote.headers[0].value], ['Authorization', 'Bearer {key}']);
  assert.equal((await get('/v0.1/servers/com.example.mcp%2Falpha/versions/latest', bearer(KEYS.bob))).status, 404);

  const open = { ...config, listen: { ...config.listen, anonymousRegistry: true } };
  const second = await served(t, open);
  assert.equal(names(await second.get('/v0.1/servers')).length, 2);
  const response = await fetch(`${second.origin}/servers/beta/mcp`, { method: 'POST', body: '{}' });
  assert.equal(response.status, 401);
});

test('the version is what the server says of itself, and both last over restarts', async (t) => {
  const config = { mcpServers: { alpha: manySided('alpha') } };
  const first = await served(t, config);
  await first.gateway.ready();
  const path = '/v0.1/servers/localhost%2Falpha/versions';
  const { server, _meta } = (await first.get(`${path}/latest`)).json;
  assert.equal(server.version, VERSION);
  assert.equal((await first.get(`${path}/${VERSION}`)).status, 200);
  assert.equal((await first.get(`${path}/1.0.0`)).status, 404);
  assert.deepEqual(names(await first.get(`/v0.1/servers?version=${VERSION}`)), ['localhost/alpha']);
  const { updatedAt } = _meta['io.modelcontextprotocol.registry/official'];
  const begun = Date.now();
  assert.ok(Date.parse(updatedAt) <= begun);

  await first.gateway.stop();
  const again = await served(
    t,
    { mcpServers: { alpha: { ...manySided('alpha'), start: 'lazy' } } },
    first.gateway.folder,
  );
  const after = (await again.get(`${path}/latest`)).json;
  assert.equal(after.server.version, VERSION);
  assert.ok(Date.parse(after._meta['io.modelcontextprotocol.registry/official'].updatedAt) <= begun);
});

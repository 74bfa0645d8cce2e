import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { ProtectedServer } from '../fixtures/oauth/protected-server.ts';
import { redirectedTo } from '../support/consent.ts';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const SCHEMAS = join(import.meta.dirname, '../../schema');
const openApi: Json = JSON.parse(readFileSync(join(SCHEMAS, 'openapi.json'), 'utf8'));
/** Members that these schemas leave open on purpose. */
const OPEN: ReadonlySet<string> = new Set(['LogLine']);

/** The document in which a member that no schema names is an error. */
const strict: Json = structuredClone(openApi);
for (const [name, schema] of Object.entries<Json>(strict.components.schemas)) if (!OPEN.has(name)) close(schema);
close(strict.paths);

function close(schema: Json): void {
  if (typeof schema !== 'object' || schema === null) return;
  if (schema.type === 'object' && schema.properties !== undefined) schema.additionalProperties ??= false;
  for (const part of Object.values(schema)) close(part as Json);
}

const ajv = new Ajv2020({ strict: false, allErrors: true });
formats.default(ajv);
ajv.addSchema(JSON.parse(readFileSync(join(SCHEMAS, 'config.schema.json'), 'utf8')), 'config.schema.json');
ajv.addSchema(strict, 'openapi.json');

function validator(path: string, method: string, status: number): ValidateFunction {
  const pointer = (part: string): string => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));
  const response = strict.paths[path][method].responses[status];
  assert.ok(response !== undefined, `${method} ${path} does not document ${status}`);
  if (response.$ref !== undefined) return ajv.getSchema('openapi.json#/components/schemas/Error')!;
  const media = Object.keys(response.content)[0]!;
  return ajv.getSchema(
    `openapi.json#/paths/${pointer(path)}/${method}/responses/${status}/content/${pointer(media)}/schema`,
  )!;
}

describe('answers of the control API and the OpenAPI document', () => {
  let gateway: RunningGateway;
  let locked: ProtectedServer;
  const tried = new Set<string>();

  before(async () => {
    locked = await ProtectedServer.start();
    gateway = await RunningGateway.start({
      args: ['--log-level', 'info'],
      config: {
        registry: join(import.meta.dirname, '../fixtures/registry'),
        mcpServers: {
          good: manySided('good', { API_KEY: 'secret-value-1' }),
          dead: { command: 'no-such-program' },
          web: { type: 'http', url: 'http://127.0.0.1:9/mcp', headers: { 'x-a': 'b' } },
          locked: { type: 'http', url: locked.url },
          many: { ...manySided('many'), replicas: 2, isolation: 'shared' },
        },
      },
    });
    await gateway.ready('good', 'many');
    const client = await WireClient.open(gateway.mcpUrl);
    await client.callText('good__echo', { text: 'x' });
    await client.callText('many__echo', { text: 'x' });
  });
  after(async () => {
    await gateway.dispose();
    await locked.stop();
  });

  async function answered(path: string, route: string, method: string, body?: object): Promise<Json> {
    tried.add(`${method} ${route}`);
    const token = readFileSync(join(gateway.folder, 'data', 'control.token'), 'utf8').trim();
    const exec = readFileSync(join(gateway.folder, 'data', 'exec.token'), 'utf8').trim();
    const response = await fetch(new URL(path, gateway.controlUrl), {
      method: method.toUpperCase(),
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'trunkline-exec': exec },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(20_000),
    });
    const validate = validator(route, method, response.status);
    if (response.headers.get('content-type')?.startsWith('text/event-stream') !== true) {
      const json = (await response.json()) as Json;
      assert.ok(validate(json), `${method} ${path}: ${ajv.errorsText(validate.errors)}`);
      return json;
    }
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of response.body!) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      const [, data] = /^data: ?(.+)\n\n/m.exec(text) ?? [];
      if (data === undefined) continue;
      assert.ok(validate(JSON.parse(data)), `${path} ${data}: ${ajv.errorsText(validate.errors)}`);
      return JSON.parse(data);
    }
    throw new Error(`${path} ended without an event`);
  }

  test('check:J1 every operation answers as documented, member for member', async () => {
    const v1 = '/api/v1';
    const get = (path: string, route = path): Promise<Json> => answered(v1 + path, v1 + route, 'get');
    const post = (path: string, route = path, body?: object): Promise<Json> =>
      answered(v1 + path, v1 + route, 'post', body);
    await get('/gateway');
    assert.equal((await get('/gateways')).gateways[0].node, null);
    await post('/gateway/stop?now=2', '/gateway/stop');
    const { servers } = await get('/servers');
    assert.deepEqual(servers.map(({ name }: Json) => name).sort(), ['dead', 'good', 'locked', 'many', 'web']);
    for (const name of ['good', 'dead', 'web', 'many', 'none']) await get(`/servers/${name}`, '/servers/{name}');
    const many = await get('/servers/many', '/servers/{name}');
    assert.equal(many.replicas.length, 2);
    for (const { usage } of process.platform === 'linux' ? many.connections : []) {
      assert.ok(usage.processes > 0 && usage.memoryBytes > 1e6, JSON.stringify(usage));
    }
    const { calls } = await get('/calls');
    assert.ok(calls.length > 0);
    await get('/calls?filter=colour:red', '/calls');
    await get(`/calls/${calls[0].id}`, '/calls/{name}');
    await get('/calls/none', '/calls/{name}');
    assert.equal((await get('/live?logs=*', '/live')).topic, 'hello');
    assert.equal((await get('/rates')).nodes[0].node, null);
    await get('/tools');
    await get('/tools?server=none', '/tools');
    await get('/tools/clients');
    await get('/tools/clients?client=none', '/tools/clients');
    await get('/tools/clients?gateway=', '/tools/clients');
    const called = await post('/servers/good/call?tool=echo', '/servers/{name}/call', { text: 'x' });
    assert.equal(called.outcome, 'RESULT');
    await post('/servers/good/call', '/servers/{name}/call', {});
    const streamed = await post('/servers/good/call/stream?tool=echo', '/servers/{name}/call/stream', { text: 'x' });
    assert.equal(streamed.outcome, 'RESULT');
    assert.match(gateway.stderr, /"control".*"streamCall"/);
    await post('/servers/good/call/stream?tool=echo&timeoutMs=0', '/servers/{name}/call/stream', {});
    const call = { method: 'tools/call', params: { name: 'echo', arguments: {} }, server: 'good' };
    assert.ok((await post('/playground', '/playground', { ...call, revision: '2026-07-28' })).run !== undefined);
    await post('/playground', '/playground', call);
    for (const body of [{ cancel: 'x' }, { cancel: 7 }]) await post('/playground/none', '/playground/{name}', body);
    await post('/apps', '/apps', { html: '<p>' });
    await post('/apps', '/apps', { html: '<p>', csp: { connectDomains: 'all' } });
    await get('/logs');
    assert.equal((await get('/instances?server=dead', '/instances')).instances[0].node, null);
    await get('/logs?lines=many', '/logs');
    await get('/nodes');
    await get('/servers/good/configuration', '/servers/{name}/configuration');
    await get('/servers/none/configuration', '/servers/{name}/configuration');
    assert.equal((await get('/access')).callers[0].principal, 'anonymous');
    const why = (query: string) => get(`/servers/good/access${query}`, '/servers/{name}/access');
    assert.equal((await why('?tool=echo')).allowed, true);
    for (const query of ['', '?tool=echo&principal=none']) await why(query);
    await get('/configuration');
    await get('/configuration/plan');
    assert.equal((await post('/configuration/reload')).result, 'unchanged');
    assert.equal((await get('/registry/servers?search=graph', '/registry/servers')).servers.length, 1);
    const prepare = (server: string, more = {}) =>
      post('/registry/definition', '/registry/definition', { server, ...more });
    const values = { MEMORY_FILE_PATH: '/g.json', API_KEY: 'a-secret' };
    assert.deepEqual((await prepare('com.example/graph')).lacking, ['MEMORY_FILE_PATH', 'API_KEY']);
    const prepared = await prepare('graph@1.0.0', { name: 'mine', values });
    assert.deepEqual(prepared.secrets, { API_KEY: 'mine-api_key' });
    assert.deepEqual(prepared.definition.env, {
      MEMORY_FILE_PATH: '/g.json',
      API_KEY: '${secret:mine-api_key}',
      MODE: 'fast',
    });
    for (const [server, more, code] of [
      ['com.example/grap', {}, 'registry_unknown'],
      ['com.example/graph@2', {}, 'registry_unknown'],
      ['com.example/graph', { via: 'pypi' }, 'registry_invalid'],
      ['com.example/graph', { name: 'a b' }, 'registry_invalid'],
      ['com.example/graph', { values: { ...values, MODE: 'slow' } }, 'registry_invalid'],
      ['com.example/graph', { values: { ...values, COLOUR: 'red' } }, 'registry_invalid'],
      ['com.example/bundle', {}, 'registry_invalid'],
      ['com.example/nowhere', {}, 'registry_invalid'],
      ['com.example/graph', { values: 'none' }, 'body_malformed'],
    ] as const)
      assert.equal((await prepare(server, more)).error.code, code, `${server} ${JSON.stringify(more)}`);
    const read = (body: object) => post('/definitions', '/definitions', body);
    assert.equal((await read({ command: 'node x.js --a="b c"', name: 'x' })).servers[0].definition.args[1], '--a=b c');
    assert.equal((await read({ document: '{ "x": { "command": "node", "colour": 1 } }' })).warnings[0].code, 'TL1301');
    const asks = { document: '{ "servers": { "x": { "command": "node", "args": ["${input:k}"] } } }' };
    assert.equal((await read(asks)).lacking[0].id, 'k');
    assert.deepEqual((await read({ ...asks, values: { k: 'v' } })).servers[0].secrets, { 'x-k': 'v' });
    assert.equal((await read({ command: 'node "x', name: 'x' })).error.problems[0].code, 'TL1101');
    assert.equal((await read({ name: 'x' })).error.code, 'body_malformed');
    await get('/tasks');
    await post('/tasks/none/cancel', '/tasks/{name}/cancel');
    assert.ok((await get('/clients')).clients.length > 10);
    await get('/clients?agent=none', '/clients');
    await post('/nodes/none/drain', '/nodes/{name}/drain');
    await get('/drift');
    await get('/servers/good/drift', '/servers/{name}/drift');
    await get('/servers/good/drift/history?limit=5', '/servers/{name}/drift/history');
    await get('/servers/good/drift/history?limit=-1', '/servers/{name}/drift/history');
    const names = { definitions: [{ list: 'tools', key: 'echo' }] };
    await post('/servers/many/drift/block', '/servers/{name}/drift/block', names);
    const [blocked] = (await get('/servers/many/drift', '/servers/{name}/drift')).waiting;
    assert.equal(blocked.change, 'blocked');
    const { list, key, digest } = blocked;
    await post('/servers/many/drift/approve', '/servers/{name}/drift/approve', {
      definitions: [{ list, key, digest }],
    });
    await post('/servers/many/drift/approve', '/servers/{name}/drift/approve', names);
    await post('/servers', '/servers', { name: 'new', ...manySided('new') });
    await post('/servers', '/servers', { name: 'bad', command: 7 });
    await post('/servers?ttlMs=soon', '/servers', { name: 'short', ...manySided('short') });
    await answered(`${v1}/servers/new`, `${v1}/servers/{name}`, 'put', manySided('new', { A: 'b' }));
    await post('/servers/new/suspend', '/servers/{name}/suspend');
    await post('/servers/new/restart', '/servers/{name}/restart');
    await post('/servers/new/resume', '/servers/{name}/resume');
    await post('/servers/good/restart', '/servers/{name}/restart');
    await answered(`${v1}/servers/new`, `${v1}/servers/{name}`, 'delete');
    await get('/events?after=none', '/events');
    await get('/logs/stream?lines=1', '/logs/stream');
    const { sessions } = await get('/sessions');
    assert.equal(sessions.length, 1);
    const { id } = await post('/recordings', '/recordings', { server: 'good' });
    for (const target of [{}, { session: 'none' }, { session: sessions[0].label }]) {
      await post('/recordings', '/recordings', target);
    }
    assert.equal((await get('/recordings')).recordings.length, 2);
    await post('/servers/good/call?tool=echo', '/servers/{name}/call', { text: 'x' });
    await post(`/recordings/${id}/stop`, '/recordings/{name}/stop');
    assert.equal((await get(`/recordings/${id}`, '/recordings/{name}')).recording.state, 'stopped');
    assert.equal((await post('/replays', '/replays', { recording: id, server: 'good' })).replayed, 1);
    await post('/replays', '/replays', { recording: id, server: 'good', of: 'many' });
    await post('/replays', '/replays', { recording: 'none', server: 'good' });
    await post('/replay-tests', '/replay-tests', { recording: id, server: 'good' });
    await post('/replay-tests', '/replay-tests', { recording: id, server: 'good', of: 'many' });
    await post('/replay-tests', '/replay-tests', { recording: id, server: 'none' });
    for (let i = 0; i < 2; i++) await answered(`${v1}/recordings/${id}`, `${v1}/recordings/{name}`, 'delete');
    const { url: link } = await answered(`${v1}/console-links`, `${v1}/console-links`, 'post', {});
    await answered(`${v1}/login`, `${v1}/login`, 'post', { code: link.split('/').at(-1) });
    await answered(`${v1}/login`, `${v1}/login`, 'delete');
    await answered(`${v1}/sessions/${sessions[0].label}`, `${v1}/sessions/{name}`, 'delete');
    await get('/credentials');
    const put = (name: string, body: object) => answered(`${v1}/secrets/${name}`, `${v1}/secrets/{name}`, 'put', body);
    assert.equal((await put('k', { value: 'v1' })).state, 'kept');
    for (const body of [{}, { value: '' }]) await put('k', body);
    await put('a%20b', { value: 'v1' });
    assert.deepEqual(
      (await get('/secrets')).secrets.map(({ name }: Json) => name),
      ['k'],
    );
    assert.ok((await post('/secret-key')).sealed >= 1);
    for (let i = 0; i < 2; i++) await answered(`${v1}/secrets/k`, `${v1}/secrets/{name}`, 'delete');
    const [login, redirects] = ['/servers/{name}/login', '/login-redirects'];
    for (const name of ['none', 'good', 'web', 'locked']) await post(`/servers/${name}/login`, login, {});
    await post('/servers/good/login', login, { redirectUri: null });
    await post('/servers/locked/login', login, { redirectUri: 'none' });
    await get('/logins/none', '/logins/{name}');
    await post(redirects, redirects, {});
    await post(redirects, redirects, { url: 'http://127.0.0.1/?state=none' });
    const url = await redirectedTo(
      async (redirectUri) => (await post('/servers/locked/login', login, { redirectUri })).url,
    );
    assert.equal((await post(redirects, redirects, { url })).state, 'connected');
    assert.equal((await get('/credentials')).credentials.length, 1);
    assert.ok((await get('/servers/locked/login', login)).steps.length >= 6);
    for (const name of ['none', 'good']) await get(`/servers/${name}/login`, login);
    for (const name of ['none', 'good', 'locked']) await post(`/servers/${name}/login/check`, `${login}/check`);
    for (let i = 0; i < 2; i++) await answered(`${v1}/servers/locked/login`, v1 + login, 'delete');
    const documented = Object.entries<Json>(openApi.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    );
    assert.deepEqual([...tried].sort(), documented.sort());
  });

  test('no operation has a parameter twice, and each documents requests refused before it runs', async () => {
    for (const [path, methods] of Object.entries<Json>(openApi.paths)) {
      for (const [method, { parameters, responses }] of Object.entries<Json>(methods)) {
        const all = parameters.map((one: Json) =>
          one.$ref === undefined ? one : openApi.components.parameters[one.$ref.split('/').at(-1)],
        );
        const names = all.map((one: Json) => `${one.in} ${one.name}`);
        assert.deepEqual([...new Set(names)], names, `${method} ${path}`);
        assert.equal(responses.default.$ref, '#/components/responses/Refused');
      }
    }
    assert.match(openApi.components.responses.Refused.description, /404 for an unknown `node`/);
    const token = { authorization: `Bearer ${gateway.token('control')}` };
    const refused = await fetch(new URL('/api/v1/tasks?node=none', gateway.controlUrl), { headers: token });
    assert.equal(refused.status, 404);
    assert.ok(ajv.getSchema('openapi.json#/components/schemas/Error')!(await refused.json()));
  });

  test('the body of the guide for adding a server is as documented, and the gateway takes it', async () => {
    const guide = readFileSync(join(import.meta.dirname, '../../docs/run-time-servers.md'), 'utf8');
    const [, text] = / -d '(.+)'$/m.exec(guide)!;
    const body = JSON.parse(text!);
    const { schema } = openApi.paths['/api/v1/servers'].post.requestBody.content['application/json'];
    const validate = ajv.compile(schema);
    assert.equal(validate(body), true, ajv.errorsText(validate.errors));
    assert.ok(!validate({ command: 'npx' }), 'a body without a name');
    // Disabled, so that nothing is downloaded.
    const added = await answered('/api/v1/servers', '/api/v1/servers', 'post', { ...body, enabled: false });
    assert.equal(added.name, body.name);
    await answered(`/api/v1/servers/${body.name}`, '/api/v1/servers/{name}', 'delete');
  });

  test('the document refers to shared components and stays short', () => {
    const text = readFileSync(join(SCHEMAS, 'openapi.json'), 'utf8');
    const operations = text.split('"operationId"').length - 1;
    assert.ok(text.split('\n').length < 115 * operations);
    for (const [, name] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      assert.ok(openApi.components.schemas[name!] !== undefined, name);
    }
  });
});

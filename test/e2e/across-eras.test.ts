import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { RawServer } from '../fidelity/raw-server.ts';
import { HintingServer } from '../fixtures/http/hinting.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

/** Results, errors, pages, `_meta` and extensions from one era to the other; each on both kinds of endpoint. */

const SERVER_INFO = 'io.modelcontextprotocol/serverInfo';
const TRACE = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'vendor/x': 1 };

describe('a stateful client of a server that knows only 2026-07-28', { timeout: 120_000 }, () => {
  let server: HintingServer;
  let gateway: RunningGateway;

  before(async () => {
    server = await HintingServer.start();
    server.capabilities =
      '{"tools":{},"prompts":{},"resources":{},"experimental":{"had/it":{}},"extensions":{"vendor/new":{"a":1.0}}}';
    const list =
      '{"name":"list","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{"type":"integer"}}}';
    const plain = '{"name":"plain","inputSchema":{"type":"object"}}';
    server.say.set('tools/list', () => `"tools":[${list},${plain}],"ttlMs":60000,"cacheScope":"public"`);
    server.say.set(
      'resources/list',
      () => '"resources":[{"uri":"test://gone","name":"gone"}],"ttlMs":0,"cacheScope":"private"',
    );
    gateway = await RunningGateway.start({ config: { mcpServers: { far: { type: 'http', url: server.url } } } });
    await gateway.ready();
  });
  after(async () => {
    await gateway.dispose();
    await server.stop();
  });

  const ways = () => [
    { url: gateway.serverUrl('far'), prefix: '' },
    { url: gateway.mcpUrl, prefix: 'far__' },
  ];

  test('S2.20 results: no resultType, no cache hints, no serverInfo; the rest of `_meta` stays; an unknown type is an error', async () => {
    for (const { url, prefix } of ways()) {
      const client = await WireClient.open(url);
      const meta = `"_meta":{"${SERVER_INFO}":{"name":"s","version":"1"},"vendor/kept":12345678901234567890}`;
      server.say.set('resources/read', () => `"contents":[],"ttlMs":5,"cacheScope":"public",${meta}`);
      const read = await client.result('resources/read', { uri: 'test://gone' });
      assert.deepEqual(Object.keys(read).sort(), ['_meta', 'contents']);
      assert.deepEqual(Object.keys(read._meta), ['vendor/kept']);
      const list = await client.result('tools/list');
      assert.deepEqual(
        [list.resultType, list.ttlMs, list.cacheScope, list._meta],
        [undefined, undefined, undefined, undefined],
      );
      server.say.set('tools/call', () => `"resultType":"shipped_by_post","content":[]`);
      const { status, message } = await client.request('tools/call', { name: `${prefix}plain`, arguments: {} });
      assert.equal(status, 200);
      const reported = JSON.stringify(message.error ?? message.result);
      assert.ok(message.error !== undefined || message.result.isError === true, reported);
      assert.match(reported, /shipped_by_post/);
    }
  });

  test('S2.17 structured content that is no object is wrapped like its schema, and copied into a text if that is missing', async () => {
    server.say.set('tools/call', () => '"content":[],"structuredContent":[1,2.0]');
    for (const { url, prefix } of ways()) {
      const client = await WireClient.open(url);
      const { tools } = await client.result('tools/list');
      const { outputSchema } = tools.find(({ name }: Json) => name === `${prefix}list`);
      assert.deepEqual(outputSchema, {
        type: 'object',
        properties: { result: { type: 'array', items: { type: 'integer' } } },
        required: ['result'],
      });
      const result = await client.call(`${prefix}list`);
      assert.deepEqual(result, {
        content: [{ type: 'text', text: '[1,2.0]' }],
        structuredContent: { result: [1, 2] },
      });
      assert.equal(tools.find(({ name }: Json) => name === `${prefix}plain`).outputSchema, undefined);
    }
  });

  test('S4.1 errors: an unknown resource is -32002, the protocol’s own codes and statuses become plain errors', async () => {
    const answers: readonly (readonly [said: { error: string; status?: number }, code: number])[] = [
      [{ error: '{"code":-32602,"message":"no","data":{"uri":"test://gone"}}' }, -32002],
      [{ error: '{"code":-32602,"message":"another"}' }, -32602],
      [
        { error: '{"code":-32021,"message":"needs roots","data":{"requiredCapabilities":{"roots":{}}}}', status: 400 },
        -32021,
      ],
      [{ error: '{"code":-32601,"message":"Method not found"}', status: 404 }, -32601],
      [{ error: '{"code":-32603,"message":"broke"}', status: 500 }, -32603],
    ];
    for (const { url } of ways()) {
      const client = await WireClient.open(url);
      for (const [said, code] of answers) {
        server.say.set('resources/read', () => said);
        const { status, message } = await client.request('resources/read', { uri: 'test://gone' });
        assert.deepEqual([status, message.error?.code], [200, code], JSON.stringify([said, message]));
      }
    }
  });

  test('pages: an empty cursor is a cursor', async () => {
    server.say.set('prompts/list', ({ cursor }) =>
      cursor === undefined
        ? '"prompts":[{"name":"p1"}],"nextCursor":"","ttlMs":0,"cacheScope":"private"'
        : `"prompts":[{"name":"p2"}],"ttlMs":0,"cacheScope":"private"`,
    );
    const own = await WireClient.open(gateway.serverUrl('far'));
    const first = await own.result('prompts/list');
    assert.deepEqual([first.prompts[0].name, first.nextCursor], ['p1', '']);
    const second = await own.result('prompts/list', { cursor: '' });
    assert.deepEqual([second.prompts[0].name, second.nextCursor], ['p2', undefined]);
    const end = performance.now() + 30_000;
    const all = await WireClient.open(gateway.mcpUrl);
    for (let names: string[] = []; !names.includes('far__p2'); ) {
      names = (await all.result('prompts/list')).prompts.map(({ name }: Json) => name);
      if (performance.now() > end) assert.fail(`only ${names}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  });

  test('`_meta` of requests: the client’s members stay, and those that the session knows are added', async () => {
    server.say.set('tools/call', () => '"content":[]');
    for (const { url, prefix } of ways()) {
      const client = await WireClient.open(url);
      await client.result('tools/call', { name: `${prefix}plain`, arguments: {}, _meta: TRACE });
      const sent = server.server.stage.requests.findLast(({ headers }) => headers['mcp-method'] === 'tools/call')!;
      const meta = JSON.parse(sent.body.toString()).params._meta;
      assert.deepEqual(meta, {
        ...TRACE,
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': { name: 'wire', version: '1' },
      });
    }
  });

  test('extensions have no place of their own in 2025-11-25 and are under `experimental` too', async () => {
    const client = new WireClient(gateway.serverUrl('far'));
    const { capabilities } = await client.initialize();
    assert.deepEqual(capabilities.extensions, { 'vendor/new': { a: 1 } });
    assert.deepEqual(capabilities.experimental, { 'had/it': {}, 'vendor/new': { a: 1 } });
  });
});

describe('a client of 2026-07-28 of a server that knows only 2025-11-25', { timeout: 120_000 }, () => {
  const server = new RawServer('stateful');
  let gateway: RunningGateway;

  const answer = (method: string, result: string) =>
    server.scripts.set(method, { answer: `{"jsonrpc":"2.0","id":$ID,"result":${result}}` });
  const error = (method: string, text: string) =>
    server.scripts.set(method, { answer: `{"jsonrpc":"2.0","id":$ID,"error":${text}}` });

  before(async () => {
    const url = await server.listen();
    answer(
      'tools/list',
      '{"tools":[{"name":"plain","inputSchema":{"type":"object"},"execution":{"taskSupport":"forbidden"}}]}',
    );
    answer('prompts/list', '{"prompts":[{"name":"p"}]}');
    answer('resources/list', '{"resources":[{"uri":"test://gone","name":"gone"}],"ttlMs":99,"cacheScope":"public"}');
    gateway = await RunningGateway.start({ config: { mcpServers: { old: { type: 'http', url } } } });
    await gateway.ready();
  });
  after(async () => {
    await gateway.dispose();
    await server.close();
  });

  const ways = () => [
    { client: new WireClient(gateway.serverUrl('old'), 'stateless'), prefix: '' },
    { client: new WireClient(gateway.mcpUrl, 'stateless'), prefix: 'old__' },
  ];

  test('S2.20 results are complete, and have ttlMs 0 where the method is cacheable', async () => {
    answer('resources/read', '{"contents":[],"resultType":"chance","ttlMs":99,"_meta":{"vendor/kept":1}}');
    answer('prompts/get', '{"messages":[]}');
    answer('tools/call', '{"content":[],"structuredContent":{"a":1},"ttlMs":"the server’s own"}');
    for (const { client, prefix } of ways()) {
      for (const method of [
        'tools/list',
        'prompts/list',
        'resources/list',
        'resources/templates/list',
        'server/discover',
      ]) {
        const result = await client.result(method);
        const hints = [result.resultType, result.ttlMs, result.cacheScope];
        assert.deepEqual(hints, ['complete', 0, 'private'], `${client.url} ${method}`);
      }
      const read = await client.result('resources/read', { uri: 'test://gone' });
      assert.equal(read._meta[SERVER_INFO].name, prefix === '' ? 'raw' : 'trunkline');
      assert.deepEqual(read, {
        contents: [],
        resultType: 'complete',
        ttlMs: 0,
        cacheScope: 'private',
        _meta: { [SERVER_INFO]: read._meta[SERVER_INFO], 'vendor/kept': 1 },
      });
      const { _meta: ofPrompt, ...got } = await client.result('prompts/get', { name: `${prefix}p` });
      assert.deepEqual(got, { resultType: 'complete', messages: [] });
      const { _meta: ofCall, ...called } = await client.call(`${prefix}plain`);
      const own = { content: [], structuredContent: { a: 1 }, ttlMs: 'the server’s own' };
      assert.deepEqual(called, { resultType: 'complete', ...own });
      assert.deepEqual(
        [ofPrompt, ofCall],
        [read._meta, read._meta].map(({ [SERVER_INFO]: info }) => ({ [SERVER_INFO]: info })),
      );
      const { tools } = await client.result('tools/list');
      assert.equal(tools[0].execution, undefined);
    }
  });

  test('S4.1 errors: -32002 becomes -32602 with the URI, -32601 gets status 404', async () => {
    for (const { client } of ways()) {
      error('resources/read', '{"code":-32002,"message":"Resource not found"}');
      const unknown = await client.request('resources/read', { uri: 'test://gone' });
      assert.deepEqual(
        [unknown.status, unknown.message.error.code, unknown.message.error.data],
        [200, -32602, { uri: 'test://gone' }],
      );
      error('resources/read', '{"code":-32601,"message":"Method not found"}');
      const missing = await client.request('resources/read', { uri: 'test://gone' });
      assert.deepEqual([missing.status, missing.message.error.code], [404, -32601]);
      error('resources/read', '{"code":-32000,"message":"own","data":{"n":1}}');
      const own = await client.request('resources/read', { uri: 'test://gone' });
      assert.deepEqual([own.status, own.message.error], [200, { code: -32000, message: 'own', data: { n: 1 } }]);
    }
  });

  test('`_meta` of requests: without the session’s declarations; trace context and all else stay', async () => {
    answer('tools/call', '{"content":[]}');
    for (const { client, prefix } of ways()) {
      await client.result('tools/call', { name: `${prefix}plain`, arguments: {}, _meta: TRACE });
      assert.deepEqual(JSON.parse(server.last('tools/call')).params, { name: 'plain', arguments: {}, _meta: TRACE });
    }
  });

  test('pages: an empty cursor is a cursor', async () => {
    // A session of its own, so that lists are asked live; the client says which by a handle of its own.
    const client = new WireClient(gateway.serverUrl('old'), 'stateless');
    answer('prompts/list', '{"prompts":[{"name":"p1"}],"nextCursor":""}');
    const first = await client.result('prompts/list');
    assert.equal(first.nextCursor, '');
    answer('prompts/list', '{"prompts":[{"name":"p2"}]}');
    const second = await client.result('prompts/list', { cursor: '' });
    assert.deepEqual([second.prompts[0].name, second.nextCursor], ['p2', undefined]);
    assert.equal(JSON.parse(server.last('prompts/list')).params.cursor, '');
  });
});

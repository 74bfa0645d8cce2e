import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { JSON_HEADERS, modern } from '../attacks/arena.ts';
import { HintingServer } from '../fixtures/http/hinting.ts';
import { eventText, openEvents } from '../fixtures/http/stage.ts';
import { open, type Reply, send } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

type Headers = Readonly<Record<string, string>>;

const b64 = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;
const property = (name: string, type: string, header: string) =>
  `"${name}":{"type":"${type}","x-mcp-header":"${header}"}`;
const tool = (name: string, properties = '') =>
  `{"name":"${name}","inputSchema":{"type":"object","properties":{${properties}}}}`;

const PARAMS = [property('region', 'string', 'Region'), property('count', 'integer', 'Count')].join(',');
/** Waits until the condition is true, at most 45 s: longer than any machine needs. */
async function waitFor(condition: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 45_000; !(await condition()); ) {
    if (performance.now() > end) throw new Error(`timed out waiting for ${condition}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

const DEEP = `{"name":"deep","inputSchema":${'{"properties":{"p":'.repeat(300)}{"type":"string","x-mcp-header":"Deep"}${'}}'.repeat(300)}}`;

describe('headers of Streamable HTTP in 2026-07-28', { timeout: 120_000 }, () => {
  let server: HintingServer;
  let gateway: RunningGateway;
  /** A server that must never receive a request. */
  const canary = createServer((_, response) => {
    fetched++;
    response.end('{}');
  });
  let fetched = 0;
  let region = 'Region';

  before(async () => {
    await new Promise<void>((done) => canary.listen(0, '127.0.0.1', done));
    const remote = `http://127.0.0.1:${(canary.address() as AddressInfo).port}`;
    server = await HintingServer.start();
    server.capabilities = '{"tools":{},"prompts":{},"resources":{}}';
    server.say.set('tools/list', () => {
      const ref = `{"name":"ref","icons":[{"src":"${remote}/icon.png"}],"inputSchema":{"type":"object","$ref":"${remote}/in.json"},"outputSchema":{"$ref":"${remote}/out.json"}}`;
      const twice = tool('twice', `${property('a', 'string', 'Same')},${property('b', 'string', 'same')}`);
      const moving = tool('moving', property('region', 'string', region));
      const tools = [tool('plain'), tool('mirror', PARAMS), tool('héllo'), twice, DEEP, moving, ref];
      return `"tools":[${tools.join(',')}],"ttlMs":0,"cacheScope":"private"`;
    });
    server.say.set(
      'resources/list',
      () => '"resources":[{"uri":"test://x","name":"x"}],"ttlMs":0,"cacheScope":"private"',
    );
    gateway = await RunningGateway.start({ config: { mcpServers: { far: { type: 'http', url: server.url } } } });
    await gateway.ready();
  });
  after(async () => {
    await gateway.dispose();
    await server.stop();
    canary.close();
  });

  /** The URLs of the tool, with its name at each. */
  const ways = (name: string) =>
    [
      { url: gateway.mcpUrl, name: `far__${name}` },
      { url: gateway.serverUrl('far'), name },
    ] as const;

  const reached = () => server.count('tools/call');

  async function call(
    url: string,
    name: string,
    args: object,
    headers: Headers = {},
    without?: string,
  ): Promise<Reply> {
    const request = modern('tools/call', { name, arguments: args }, 'the-id');
    const all: Record<string, string> = { ...JSON_HEADERS, ...request.headers, ...headers };
    if (without !== undefined) delete all[without];
    return send(url, 'POST', all, request.body);
  }

  async function refused(reply: Promise<Reply>, status: number, code: number, what: string): Promise<Reply> {
    const { status: got, json, text } = await reply;
    assert.deepEqual(
      [got, json?.error?.code, json?.id],
      [status, code, 'the-id'],
      `${what}: ${got} ${text.slice(0, 300)}`,
    );
    return reply;
  }

  const lastCall = () =>
    server.server.stage.requests.findLast(({ headers }) => headers['mcp-method'] === 'tools/call')!;

  test('proto:H1 a header that differs from the body, or is missing, is 400 with -32020, and nothing runs', async () => {
    const before = reached();
    for (const { url, name } of ways('mirror')) {
      const args = { region: 'eu', count: 3 };
      const good = { 'mcp-param-region': 'eu', 'mcp-param-count': '3' };
      for (const gone of ['mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-param-region', 'mcp-param-count']) {
        await refused(call(url, name, args, good, gone), 400, -32020, `${url} without ${gone}`);
      }
      const lies: Headers = {
        'mcp-protocol-version': '2025-11-25',
        'mcp-method': 'tools/list',
        'mcp-name': `${name}x`,
        'mcp-param-region': 'us',
        'mcp-param-count': '4',
      };
      for (const [header, lie] of Object.entries(lies)) {
        await refused(call(url, name, args, { ...good, [header]: lie }), 400, -32020, `${url} ${header}: ${lie}`);
      }
      // A header for a value that is missing or null in the body.
      await refused(call(url, name, {}, { 'mcp-param-region': 'eu' }), 400, -32020, `${url} header without value`);
      await refused(call(url, name, { region: null }, { 'mcp-param-region': 'null' }), 400, -32020, `${url} null`);
      // On the aggregate the header names what the client calls the tool, not what the server calls it.
      const other = name === 'mirror' ? 'far__mirror' : 'mirror';
      await refused(call(url, name, args, { ...good, 'mcp-name': other }), 400, -32020, `${url} ${other}`);
    }
    assert.equal(reached(), before);
    for (const { url, name } of ways('mirror')) {
      const good = { 'mcp-param-region': 'eu', 'mcp-param-count': '3.0' };
      assert.equal((await call(url, name, { region: 'eu', count: 3 }, good)).status, 200);
      assert.equal((await call(url, name, { region: null })).status, 200);
    }
  });

  test('proto:H2 names match in any case, values only in their own; white space around is ignored; base64 is decoded first', async () => {
    for (const { url, name } of ways('mirror')) {
      const args = { region: ' Zürich', count: 1 };
      const good = { 'MCP-PARAM-region': b64(' Zürich'), 'Mcp-Param-COUNT': ' 1\t' };
      const ok = await call(url, name, args, { ...good, 'MCP-NAME': b64(name) }, 'mcp-name');
      assert.equal(ok.status, 200, ok.text);
      assert.equal(lastCall().headers['mcp-param-region'], b64(' Zürich'));
      const before = reached();
      const bad: Headers[] = [
        { 'mcp-method': 'Tools/Call' },
        { 'mcp-name': name.toUpperCase() },
        { 'mcp-name': '=?base64?%%%?=' },
        { 'mcp-name': `=?BASE64?${Buffer.from(name).toString('base64')}?=` },
        { 'mcp-param-region': '=?base64?IFrDvHJpY2g?=' },
        { 'mcp-param-region': b64(' zürich') },
        { 'mcp-param-region': 'Zürich' },
      ];
      for (const headers of bad) {
        const lower = { 'mcp-param-region': b64(' Zürich'), 'mcp-param-count': '1', ...headers };
        await refused(call(url, name, args, lower), 400, -32020, `${url} ${JSON.stringify(headers)}`);
      }
      assert.equal(reached(), before);
    }
    // A name beyond ASCII is forwarded encoded (this server does not decode names, and refuses the call).
    await call(gateway.serverUrl('far'), 'héllo', {}, { 'mcp-name': b64('héllo') });
    assert.equal(lastCall().headers['mcp-name'], b64('héllo'));
  });

  test('proto:H3 an unknown Mcp-Param header is forwarded unchanged', async () => {
    for (const { url, name } of ways('mirror')) {
      const headers = { 'mcp-param-region': 'eu', 'mcp-param-other': 'left as it is', 'mcp-param-x': b64('ü') };
      assert.equal((await call(url, name, { region: 'eu' }, headers)).status, 200);
      const sent = lastCall().headers;
      assert.equal(sent['mcp-param-other'], 'left as it is');
      assert.equal(sent['mcp-param-x'], b64('ü'));
      assert.equal(sent['mcp-param-region'], 'eu');
    }
  });

  test('proto:H4 proto:H5 unvalidated headers decide nothing, and no header gives a right', async () => {
    // In earlier revisions, headers of these names have no meaning: only the body counts.
    const session = await WireClient.open(gateway.mcpUrl, {
      headers: { 'mcp-method': 'tools/list', 'mcp-name': 'far__plain', 'mcp-param-region': 'forged' },
    });
    await session.call('far__mirror', { region: 'eu' });
    const sent = lastCall();
    assert.deepEqual(
      [sent.headers['mcp-method'], sent.headers['mcp-name'], sent.headers['mcp-param-region']],
      ['tools/call', 'mirror', 'eu'],
    );
    const before = reached();
    // A body of 2026-07-28 under an older version, an unknown one, or none, is not served at all.
    for (const { url, name } of ways('plain')) {
      await refused(call(url, name, {}, {}, 'mcp-protocol-version'), 400, -32020, url);
      await refused(call(url, name, {}, { 'mcp-protocol-version': '2025-06-18' }), 400, -32020, url);
    }
    assert.equal(reached(), before);
  });

  test('proto:H6 upstream: headers from the server’s own schema, nothing for null and absent, invalid tools dropped, one refresh', async () => {
    for (const { url, name } of ways('mirror')) {
      const stateful = await WireClient.open(url);
      await stateful.call(name, { region: ' x', count: null });
      const sent = lastCall().headers;
      assert.deepEqual(
        [sent['mcp-name'], sent['mcp-param-region'], 'mcp-param-count' in sent],
        ['mirror', b64(' x'), false],
      );
      for (const client of [stateful, new WireClient(url, 'stateless')]) {
        const names = (await client.toolNames()).map((one) => one.replace('far__', ''));
        assert.ok(names.includes('plain') && names.includes('mirror') && names.includes('moving'), names.join());
        assert.ok(!names.includes('twice') && !names.includes('deep'), names.join());
        const called = reached();
        const { message } = await client.request('tools/call', {
          name: name.replace('mirror', 'twice'),
          arguments: {},
        });
        assert.ok(message.error?.code === -32602 || message.result.isError, JSON.stringify(message));
        assert.equal(reached(), called);
      }
    }
    assert.match(gateway.stderr, /the tool twice is not offered/);
    // The server renames its header and refuses the old one: the gateway lists its tools and calls it once more.
    server.say.set('tools/call', (_, { headers }) => {
      const now = `mcp-param-${region.toLowerCase()}`;
      if (now in headers) return '"content":[]';
      return { status: 400, error: '{"code":-32020,"message":"Header mismatch"}' };
    });
    for (const { url, name } of ways('moving')) {
      region = `Region-${url.length}`;
      const [listed, called] = [server.count('tools/list'), reached()];
      const stateful = await WireClient.open(url);
      await stateful.call(name, { region: 'eu' });
      assert.equal(reached() - called, 2);
      assert.ok(server.count('tools/list') > listed);
    }
    // A client that has read the new declaration before the gateway has is not refused for it.
    region = 'Region-Of-Tomorrow';
    const headers = { 'mcp-param-region-of-tomorrow': 'eu' };
    await waitFor(
      async () => (await call(gateway.serverUrl('far'), 'moving', { region: 'eu' }, headers)).status === 200,
    );
    // A server that refuses every call is called at most twice, and only once if the headers would be the same.
    server.say.set('tools/call', () => ({ status: 400, error: '{"code":-32020,"message":"Header mismatch"}' }));
    for (const [tool, times] of [
      ['moving', 2],
      ['plain', 1],
    ] as const) {
      for (const { url, name } of ways(tool)) {
        region = `Region-Of-${url.length}`;
        const called = reached();
        const stateful = await WireClient.open(url);
        const { message } = await stateful.request('tools/call', { name, arguments: { region: 'eu' } });
        assert.equal(message.error.code, -32020);
        assert.equal(reached() - called, times);
      }
    }
    server.say.set('tools/call', () => '"content":[]');
  });

  test('proto:H7 a value above the limit of a header is refused before it is decoded', async () => {
    const before = reached();
    for (const { url, name } of ways('mirror')) {
      for (const header of ['mcp-name', 'mcp-param-region']) {
        const huge = b64('x'.repeat(13 * 1024));
        const reply = await call(url, name, { region: 'x'.repeat(13 * 1024) }, { [header]: huge });
        assert.ok([400, 431].includes(reply.status), `${header}: ${reply.status}`);
        if (reply.status === 400) assert.equal(reply.json.error.code, -32020);
      }
    }
    assert.equal(reached(), before);
  });

  test('proto:H8 statuses: 404 for a method, 400 for a version, 400 for `_meta`, 405 for GET and DELETE, always with the id', async () => {
    for (const { url, name } of ways('plain')) {
      const unknown = modern('no/such', {}, 'the-id');
      const post = (headers: Headers, body: string) => send(url, 'POST', { ...JSON_HEADERS, ...headers }, body);
      await refused(post(unknown.headers, unknown.body), 404, -32601, 'unknown method');
      for (const removed of ['ping', 'logging/setLevel', 'resources/subscribe']) {
        const request = modern(removed, { uri: 'test://x', level: 'info' }, 'the-id');
        await refused(post(request.headers, request.body), 404, -32601, removed);
      }
      const meta = { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' };
      const future = modern('tools/list', {}, 'the-id', meta);
      const version = { ...future.headers, 'mcp-protocol-version': '2099-01-01' };
      const { json } = await refused(post(version, future.body), 400, -32022, 'unsupported version');
      assert.deepEqual(json.error.data, { supported: ['2026-07-28'], requested: '2099-01-01' });
      const { headers } = modern('tools/call', { name }, 'the-id');
      const bare = JSON.stringify({ jsonrpc: '2.0', id: 'the-id', method: 'tools/call', params: { name } });
      await refused(post(headers, bare), 400, -32602, 'no _meta');
      for (const method of ['GET', 'DELETE']) {
        assert.equal((await send(url, method, { 'mcp-protocol-version': '2026-07-28' })).status, 405, method);
      }
      const served = modern('tools/list', {}, 9007199254740991);
      const text = served.body.replace('9007199254740991', '9007199254740993');
      assert.match((await post(served.headers, text)).text, /"id":9007199254740993[,}]/);
    }
  });

  test('proto:H9 a stream has X-Accel-Buffering: no, and each message leaves at once, before its server has finished', async () => {
    for (const { url, name } of ways('plain')) {
      let finish = (): void => {};
      server.say.set('tools/call', (params, { body, res }) => {
        const { id } = JSON.parse(body.toString());
        const token = (params['_meta'] as Record<string, unknown>)['progressToken'];
        openEvents(res);
        const progress = {
          jsonrpc: '2.0',
          method: 'notifications/progress',
          params: { progressToken: token, progress: 1 },
        };
        res.write(eventText({ data: JSON.stringify(progress) }));
        // A server may not send a request on such a stream: the gateway drops it.
        const ask = { jsonrpc: '2.0', id: 's1', method: 'roots/list', params: {} };
        res.write(eventText({ data: JSON.stringify(ask) }));
        finish = () =>
          res.end(eventText({ data: `{"jsonrpc":"2.0","id":${id},"result":{"resultType":"complete","content":[]}}` }));
        return STREAMED;
      });
      const request = modern('tools/call', { name, arguments: {} }, 'the-id', { progressToken: 'p' });
      const { response } = await open(url, 'POST', { ...JSON_HEADERS, ...request.headers }, request.body);
      assert.equal(response.headers['content-type'], 'text/event-stream');
      assert.equal(response.headers['x-accel-buffering'], 'no');
      let text = '';
      // The first message arrives before the server sends its answer.
      for await (const chunk of response) {
        text += chunk;
        if (text.includes('notifications/progress')) finish();
      }
      assert.match(text, /"progressToken":"p"/);
      assert.match(text, /"id":"the-id"/);
      assert.ok(!text.includes('roots/list'), text);
    }
    server.say.set('tools/call', () => '"content":[]');
  });

  test('proto:S7 the gateway follows no `$ref` and fetches no icon, and reads schemas of any depth', async () => {
    for (const { url, name } of ways('ref')) {
      for (const client of [await WireClient.open(url), new WireClient(url, 'stateless')]) {
        const listed = await client.toolNames();
        assert.ok(listed.includes(name), listed.join());
        await client.call(name, { x: 1 });
      }
    }
    assert.equal(fetched, 0);
    const abyss = `{"name":"abyss","inputSchema":${'{"properties":{"p":'.repeat(50_000)}{}${'}}'.repeat(50_000)}}`;
    const wide = tool('wide', Array.from({ length: 20_000 }, (_, i) => `"p${i}":{"type":"string"}`).join(','));
    server.say.set('tools/list', () => `"tools":[${tool('plain')},${abyss},${wide}],"ttlMs":0,"cacheScope":"private"`);
    const client = new WireClient(gateway.serverUrl('far'), 'stateless');
    const { status, message } = await client.request('tools/list');
    assert.ok(status === 200 || message.error !== undefined);
    assert.deepEqual((await client.call('plain')).content, []);
    assert.equal(gateway.process.exitCode, null);
  });
});

/** The result of a `say` handler that has sent the answer itself. */
const STREAMED = '';

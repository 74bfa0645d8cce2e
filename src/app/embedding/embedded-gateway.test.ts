import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type TextCall, textResult, textServer, tool } from '../../../test/support/text-server.ts';
import { WireClient } from '../../../test/support/wire-client.ts';
import { createGateway, type Gateway, GatewayError, inProcess, ServerError, type ToolCallParams } from '../../index.ts';

const BIG = '{"n":12345678901234567890,"x":1.0}';

function echo(name = 'echo') {
  return textServer({
    name,
    tools: () => [tool('echo', ',"title":"Echo","annotations":{"readOnlyHint":true},"x-own":1.0'), tool('big')],
    call: ({ tool: called, args }) => {
      if (called === 'big') return `{"content":[],"structuredContent":${BIG},"x-more":[1.50]}`;
      return textResult(args);
    },
  });
}

async function opened(servers: Parameters<typeof createGateway>[0] & object): Promise<Gateway> {
  const gateway = await createGateway(servers);
  await gateway.ready();
  return gateway;
}

test('S2.12 S2.14 arguments as text and results as raw keep every digit and unknown member', async () => {
  await using gateway = await opened({ servers: { a: echo() } });
  const sent = await gateway.callTool('a__echo', BIG);
  assert.equal(sent.content[0]?.text, BIG);
  const { raw, structuredContent } = await gateway.callTool({ server: 'a', tool: 'big' });
  assert.equal(raw, `{"content":[],"structuredContent":${BIG},"x-more":[1.50]}`);
  assert.equal((structuredContent as { x: number }).x, 1);
});

test('S2.17 tools keep their server’s description, under exposed names', async () => {
  await using gateway = await opened({ servers: { b: echo(), a: echo() } });
  const tools = await gateway.tools();
  assert.deepEqual(
    tools.map(({ name, server, tool: own }) => [name, server, own]),
    [
      ['a__echo', 'a', 'echo'],
      ['a__big', 'a', 'big'],
      ['b__echo', 'b', 'echo'],
      ['b__big', 'b', 'big'],
    ],
  );
  assert.equal(tools[0]!.title, 'Echo');
  assert.deepEqual(tools[0]!.definition['annotations'], { readOnlyHint: true });
  assert.match(tools[0]!.raw, /"x-own":1\.0/);
});

test('S2.25 S2.13 serverInfo has name and version; setLogger replaces the log sink, and ignores null', async () => {
  const first: string[] = [];
  const second: string[] = [];
  await using gateway = await opened({ servers: {}, logger: ({ event }) => first.push(event) });
  assert.equal(gateway.serverInfo.name, 'trunkline');
  assert.match(gateway.serverInfo.version, /^\d+\.\d+\.\d+/);
  await gateway.registerServer('one', echo());
  assert.ok(first.includes('config_applied'));
  gateway.setLogger(null);
  await gateway.registerServer('two', echo());
  const seen = first.length;
  gateway.setLogger(({ event }) => second.push(event));
  await gateway.registerServer('three', echo());
  assert.equal(first.filter((event) => event === 'config_applied').length, 2);
  assert.ok(seen > 0 && second.includes('config_applied'));
});

test('S2.26 check:A3 a server is registered at run time; one that fails stays visible with its reason', async () => {
  await using gateway = await opened({});
  const status = await gateway.registerServer('late', echo());
  assert.equal(status.state, 'running');
  assert.deepEqual(status.tools, ['big', 'echo']);
  assert.equal((await gateway.callTool('late__echo', { a: 1 })).content[0]?.text, '{"a":1}');

  const broken = await gateway.registerServer(
    'broken',
    inProcess(() => Promise.reject(new Error('no database'))),
  );
  assert.equal(broken.initialized, false);
  assert.match(broken.reason ?? '', /no database/);
  assert.equal(gateway.servers().length, 2);

  const missing = await gateway.registerServer('missing', { command: 'trunkline-no-such-program' });
  assert.match(missing.reason ?? '', /trunkline-no-such-program/);
});

test('S2.26 taken, confusable or malformed names and invalid definitions are refused', async () => {
  await using gateway = await opened({ servers: { my_files: echo() } });
  const refused = { name: 'GatewayError', code: 'INVALID_PARAMS' };
  await assert.rejects(gateway.registerServer('my_files', echo()), { ...refused, message: /registered already/ });
  await assert.rejects(gateway.registerServer('My-Files', echo()), { ...refused, message: /confused with my_files/ });
  await assert.rejects(gateway.registerServer('a__b', echo()), refused);
  await assert.rejects(gateway.registerServer('web', { url: 'https://example.org/mcp', timeoutMS: 5 } as object), {
    name: 'ConfigError',
    message: /<registerServer>:\d+:\d+ .*timeoutMS.*fix: did you mean "timeoutMs"/s,
  });
  assert.deepEqual(
    gateway.servers().map(({ name }) => name),
    ['my_files'],
  );
});

test('S2.27 unregistering lets calls finish, ends the server and removes its tools', async () => {
  let release = (_: string): void => {};
  const answered = new Promise<string>((resolve) => {
    release = resolve;
  });
  let closed = 0;
  let arrived = (): void => {};
  const called = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const slow = textServer({
    tools: () => [tool('wait')],
    call: () => {
      arrived();
      return answered;
    },
  });
  const factory = slow.factory;
  const watched = Object.assign(slow, {
    factory: (link: Parameters<typeof factory>[0]) => ({ ...factory(link), close: () => closed++ }),
  });
  await using gateway = await opened({ config: { servers: {} }, servers: { slow: watched, other: echo() } });
  const removed: string[] = [];
  gateway.on('serverChanged', (name, status) => status === null && removed.push(name));
  const call = gateway.callTool('slow__wait');
  await called;
  const gone = gateway.unregisterServer('slow');
  assert.deepEqual(
    (await gateway.tools()).map(({ server }) => server),
    ['other', 'other'],
  );
  assert.equal(closed, 0);
  release(textResult('done'));
  assert.equal((await call).content[0]?.text, 'done');
  assert.equal(await gone, true);
  assert.ok(closed > 0);
  assert.deepEqual(removed, ['slow']);
  assert.equal(gateway.server('slow'), null);
  assert.equal(gateway.client('slow'), null);
  assert.equal(await gateway.unregisterServer('slow'), false);
  await assert.rejects(gateway.callTool('slow__wait'), { code: 'INVALID_PARAMS' });
  assert.equal((await gateway.registerServer('slow', echo())).state, 'running');
});

test('S2.28 check:E1 unknown agents may use all, an empty list means none, and others have their list', async () => {
  await using gateway = await opened({ servers: { a: echo(), b: echo() } });
  assert.equal(gateway.allowedServers('anybody'), null);
  assert.equal((await gateway.tools({ agent: 'anybody' })).length, 4);
  await gateway.registerAgent('half', ['b']);
  await gateway.registerAgent('nobody', []);
  assert.deepEqual(gateway.allowedServers('half'), ['b']);
  assert.deepEqual(gateway.allowedServers('nobody'), []);
  assert.deepEqual(
    (await gateway.tools({ agent: 'half' })).map(({ server }) => server),
    ['b', 'b'],
  );
  assert.deepEqual(await gateway.tools({ agent: 'nobody' }), []);
  await assert.rejects(gateway.registerAgent('operator', []), { code: 'INVALID_PARAMS' });
  await assert.rejects(gateway.registerAgent('web', [], { key: 'short' }), { code: 'INVALID_PARAMS' });
  const denied = { code: 'ACCESS_DENIED', message: "Access denied: agent 'half' cannot use tools from 'a'" };
  await assert.rejects(gateway.callTool('a__echo', {}, { agent: 'half' }), denied);
  await assert.rejects(gateway.callTool({ server: 'a', tool: 'echo' }, {}, { agent: 'half' }), denied);
  assert.equal(await gateway.unregisterAgent('half'), true);
  assert.equal(await gateway.unregisterAgent('half'), false);
  assert.equal((await gateway.callTool('a__echo', {}, { agent: 'half' })).content[0]?.text, '{}');
});

test('S2.29 S2.20 S2.38 handleInitialize opens a session, returns its id and agrees on a revision', async () => {
  await using gateway = await opened({ servers: { a: echo() } });
  const params = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'me', version: '1' } };
  const { sessionId, result } = await gateway.handleInitialize(params);
  assert.equal(result.protocolVersion, '2025-03-26');
  assert.equal(result.serverInfo.name, 'trunkline');
  assert.equal(result.capabilities.tools?.listChanged, true);
  assert.match(sessionId, /^[0-9a-f]{32}$/);
  assert.deepEqual(gateway.sessions.get(sessionId)?.clientInfo, params.clientInfo);
  assert.equal(
    (await gateway.handleInitialize({ ...params, protocolVersion: '1999-01-01' })).result.protocolVersion,
    '2025-11-25',
  );
  assert.equal(gateway.sessions.list().length, 2);
  assert.equal(gateway.sessions.delete(sessionId), true);
  assert.equal(gateway.sessions.list().length, 1);
});

test('S2.30 handleToolsList and its variant for agents give pages of the aggregated list in stable order', async () => {
  const many = textServer({ tools: () => Array.from({ length: 1500 }, (_, i) => tool(`t${i}`)) });
  await using gateway = await opened({ servers: { many, few: echo() } });
  const first = await gateway.handleToolsList();
  assert.deepEqual(
    first.tools.slice(0, 3).map(({ name }) => name),
    ['few__echo', 'few__big', 'many__t0'],
  );
  const names = [...first.tools];
  for (let cursor = first.nextCursor; cursor !== undefined; ) {
    const page = await gateway.handleToolsList({ cursor });
    names.push(...page.tools);
    cursor = page.nextCursor;
  }
  assert.equal(new Set(names.map(({ name }) => name)).size, 1502);
  await gateway.registerAgent('few', ['few']);
  assert.equal((await gateway.handleToolsListForAgent('few')).tools.length, 2);
});

test('S2.1 check:E1 handleToolsCall refuses ambiguous or invalid params, and no call reaches the server', async () => {
  const calledWith: string[] = [];
  const call = ({ args }: TextCall) => {
    calledWith.push(args);
    return textResult(args);
  };
  const counting = textServer({ tools: () => [tool('echo')], call });
  await using gateway = await opened({ servers: { s: counting } });
  await gateway.registerAgent('zed', ['s']);
  const calls: Record<string, unknown>[] = [
    { name: 's__echo', Name: 'danger', arguments: {} },
    { name: 's__echo', arguments: {}, Arguments: { x: 1 } },
    { name: 's__echo', arguments: {}, _Meta: { progressToken: 1 } },
    { name: 's__echo', arguments: [] },
    { name: 's__echo', arguments: 'text' },
  ];
  for (const params of calls) {
    const what = JSON.stringify(params);
    for (const call of [
      () => gateway.handleToolsCall(params as unknown as ToolCallParams),
      () => gateway.handleToolsCallForAgent('zed', params as unknown as ToolCallParams),
    ]) {
      const outcome = await call().then(
        ({ isError, content }) => [isError, content[0]?.text],
        (error: Error) => [true, error.message],
      );
      assert.equal(outcome[0], true, what);
      assert.match(String(outcome[1]), /Invalid (?:params|request)/, what);
    }
  }
  assert.deepEqual(calledWith, []);
});

test('S2.31 check:D4 handleToolsCall returns what an HTTP client gets: failures as text, a server’s own error unchanged', async () => {
  const failing = textServer({ tools: () => [tool('fail')], call: () => new Error('out of paper') });
  await using gateway = await opened({ servers: { a: echo(), printer: failing } });
  await gateway.registerAgent('x', ['printer']);
  const text = async (name: string, agent?: string) => {
    const { content, isError } =
      agent === undefined
        ? await gateway.handleToolsCall({ name })
        : await gateway.handleToolsCallForAgent(agent, { name, arguments: {} });
    return [content[0]?.text, isError];
  };
  assert.deepEqual(await text('a__echo'), ['', undefined]);
  assert.deepEqual(await text('nonsense'), [
    'Invalid tool name: invalid tool name format: nonsense (expected agent__tool)',
    true,
  ]);
  assert.match(String((await text('nobody__echo'))[0]), /^Error: Unknown tool: nobody__echo \(unknown agent: nobody\)/);
  assert.deepEqual(await text('a__echo', 'x'), ["Access denied: agent 'x' cannot use tools from 'a'", true]);
  const { mcpUrl } = await gateway.listen({ port: 0, controlPort: 0 });
  const client = await WireClient.open(mcpUrl);
  const overHttp = await client.request('tools/call', { name: 'printer__fail', arguments: {} });
  const calls = [gateway.callTool('printer__fail'), gateway.handleToolsCall({ name: 'printer__fail' })];
  for (const call of calls) {
    await assert.rejects(call, (error: unknown) => {
      assert.ok(error instanceof ServerError);
      assert.deepEqual(JSON.parse(error.raw), { code: -32000, message: 'out of paper' });
      assert.deepEqual(overHttp.message.error, JSON.parse(error.raw));
      return true;
    });
  }
});

test('progress reaches its call, and a cancelled or late call is cancelled at the server', async () => {
  const cancelled: string[] = [];
  const slow = textServer({
    tools: () => [tool('work')],
    call: ({ token, link, args }: TextCall) => {
      const progress = `{"progressToken":${token},"progress":1,"total":2,"message":"half"}`;
      if (token !== null) link.deliver(`{"jsonrpc":"2.0","method":"notifications/progress","params":${progress}}`);
      return args === '{}' ? textResult('done') : null;
    },
    onNotification: (method) => method === 'notifications/cancelled' && cancelled.push(method),
  });
  await using gateway = await opened({ servers: { slow } });
  const seen: unknown[] = [];
  await gateway.callTool('slow__work', {}, { onProgress: (progress) => seen.push(progress.message) });
  assert.deepEqual(seen, ['half']);
  const stop = new AbortController();
  const call = gateway.callTool('slow__work', { forever: true }, { signal: stop.signal });
  setTimeout(() => stop.abort(), 20);
  await assert.rejects(call, { code: 'CANCELLED', outcome: 'UNKNOWN' });
  const late = gateway.callTool('slow__work', { forever: true }, { timeoutMs: 20 });
  await assert.rejects(late, { code: 'TIMEOUT', outcome: 'UNKNOWN' });
  await pause(10);
  assert.equal(cancelled.length, 2);
});

test('resources, prompts and completions of all servers', async () => {
  const library = textServer({
    capabilities: '{"resources":{},"prompts":{},"completions":{}}',
    answers: {
      'resources/list': () => '{"resources":[{"uri":"book://1","name":"one"}]}',
      'resources/templates/list': () => '{"resourceTemplates":[{"uriTemplate":"book://{id}","name":"book"}]}',
      'resources/read': (params) => `{"contents":[{"uri":"book://1","text":${JSON.stringify(params)}}]}`,
      'prompts/list': () => '{"prompts":[{"name":"greet"}]}',
      'prompts/get': (params) =>
        `{"messages":[{"role":"user","content":{"type":"text","text":${JSON.stringify(params)}}}]}`,
      'completion/complete': () => '{"completion":{"values":["yes"]}}',
    },
  });
  await using gateway = await opened({ servers: { library } });
  assert.deepEqual(
    (await gateway.listResources()).map(({ name }) => name),
    ['one'],
  );
  assert.deepEqual(
    (await gateway.listResourceTemplates()).map(({ name }) => name),
    ['book'],
  );
  const [resource] = await gateway.listResources();
  assert.equal((await gateway.readResource(resource!.uri)).contents[0]?.text, '{"uri":"book://1"}');
  const [prompt] = await gateway.listPrompts();
  assert.equal(prompt?.name, 'library__greet');
  const { messages } = await gateway.getPrompt('library__greet', { who: 'you' });
  assert.deepEqual(JSON.parse(messages[0]?.content.text ?? ''), { name: 'greet', arguments: { who: 'you' } });
  const ref = { type: 'ref/prompt', name: 'library__greet' } as const;
  assert.deepEqual((await gateway.complete(ref, { name: 'who', value: 'y' })).completion.values, ['yes']);
});

test('events report a server that restarts and tools that change', async () => {
  let names = ['one'];
  let reported = (): void => {};
  const changing = textServer({
    tools: () => names.map((name) => tool(name)),
    call: ({ link }) => {
      names = ['one', 'two'];
      link.deliver('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
      return textResult('changed');
    },
  });
  await using gateway = await opened({ servers: { changing } });
  const changed = new Promise<string>((resolve) => {
    reported = gateway.on('toolsChanged', resolve);
  });
  await gateway.callTool('changing__one');
  assert.equal(await changed, 'changing');
  reported();
  assert.deepEqual(
    (await gateway.tools()).map(({ name }) => name),
    ['changing__one', 'changing__two'],
  );
  assert.deepEqual(gateway.router.aggregatedTools().length, 2);
  const states: string[] = [];
  gateway.on('serverChanged', (_name, status) => states.push(status?.state ?? 'gone'));
  const status = await gateway.restart('changing');
  assert.equal(status.state, 'running');
  assert.ok(states.includes('stopped') && states.includes('starting'), states.join());
});

test('a gateway listens on request and admits agents by key; after close it refuses all use', async () => {
  const gateway = await opened({ servers: { a: echo() }, config: { firstListWaitMs: 1000 } });
  assert.equal(gateway.listening, null);
  const key = 'a-key-of-sixteen-characters';
  await gateway.registerAgent('web', ['a'], { key });
  const { mcpUrl, controlUrl, controlToken } = await gateway.listen({ port: 0, controlPort: 0 });
  const post = (authorization: string) =>
    fetch(mcpUrl, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}',
    });
  assert.equal((await post('Bearer wrong')).status, 401);
  const response = await post(`Bearer ${key}`);
  assert.equal(response.status, 200);
  assert.equal(gateway.sessions.get(response.headers.get('mcp-session-id')!)?.initialized, false);
  const servers = await fetch(`${controlUrl}/api/v1/servers`, { headers: { authorization: `Bearer ${controlToken}` } });
  assert.equal(servers.status, 200);
  await gateway.close();
  await gateway.close();
  await assert.rejects(WireClient.open(mcpUrl), /ECONNREFUSED/);
  await assert.rejects(gateway.callTool('a__echo'), GatewayError);
  const refused = { code: 'INVALID_REQUEST', message: /takes nothing new/ };
  await assert.rejects(gateway.registerServer('b', echo()), refused);
  assert.throws(() => gateway.connect(), refused);
});

test('a port in use is reported, and another one can be tried', async () => {
  await using first = await opened({ servers: { a: echo() } });
  const { mcpUrl } = await first.listen({ port: 0, controlPort: 0 });
  await using second = await opened({ servers: { a: echo() } });
  const taken = Number(new URL(mcpUrl).port);
  await assert.rejects(second.listen({ port: taken, controlPort: 0 }), { name: 'ListenError', code: 'EADDRINUSE' });
  await assert.rejects(second.listen({ host: '0.0.0.0', port: 0, controlPort: 0 }), {
    name: 'OpenError',
    reason: 'bind',
  });
  assert.equal((await second.callTool('a__echo')).isError, undefined);
  assert.notEqual((await second.listen({ port: 0, controlPort: 0 })).mcpUrl, mcpUrl);
});

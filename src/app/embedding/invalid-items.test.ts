import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { followed } from '../../../test/support/followed-events.ts';
import { textResult, textServer, tool } from '../../../test/support/text-server.ts';
import type { InvalidItem } from '../../model/server-catalog.ts';
import { createGateway } from './open-gateway.ts';

const LIMIT = { timeout: 60_000 };
const INFO = { name: 'c', version: '1' };
const ODD = {
  tools:
    '[{"name":"bare"},{"name":"half","inputSchema":{}},{"name":"hint","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}]',
  prompts: '[{"name":"good"},{"description":"d"},{"name":"unnamed","arguments":[{"description":"d"}]}]',
  resources: '[{"uri":"odd://good","name":"g"},{"uri":"odd://bare"},{"name":"placeless"}]',
  resourceTemplates: '[{"uriTemplate":"odd://{x}","name":"g"},{"uriTemplate":"odd://bare/{x}"},{"name":"placeless"}]',
};
const CAPABILITIES = '{"tools":{"listChanged":true},"prompts":{},"resources":{}}';
const LISTED = {
  'prompts/list': () => `{"prompts":${ODD.prompts}}`,
  'resources/list': () => `{"resources":${ODD.resources}}`,
  'resources/templates/list': () => `{"resourceTemplates":${ODD.resourceTemplates}}`,
};

/** The names in all lists of the endpoint, as the official clients of both SDKs and eras see them. */
async function listed(url: string, token: string): Promise<unknown[]> {
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  const found: unknown[] = [];
  for (const client of [
    new Client1(INFO),
    new Client2(INFO),
    new Client2(INFO, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
  ]) {
    const transport =
      client instanceof Client1 ? new Http1(new URL(url), { requestInit }) : new Http2(new URL(url), { requestInit });
    await client.connect(transport as never);
    try {
      const lists = [(await client.listTools()).tools];
      const { prompts, resources } = client.getServerCapabilities()!;
      if (prompts !== undefined) lists.push((await client.listPrompts()).prompts as never);
      if (resources !== undefined) {
        lists.push((await client.listResources()).resources as never);
        lists.push((await client.listResourceTemplates()).resourceTemplates as never);
      }
      found.push(lists.map((list) => list.map(({ name }) => name)));
    } finally {
      await client.close();
    }
  }
  return found;
}

test(
  'S2.30 items without required members are left out, and the program and the event stream are notified',
  LIMIT,
  async () => {
    await using gateway = await createGateway({});
    const { controlUrl, controlToken, mcpUrl } = await gateway.listen({ port: 0, controlPort: 0 });
    const events = await followed(controlUrl, controlToken);
    const reported: [string, InvalidItem][] = [];
    gateway.on('listItemInvalid', (...invalid) => reported.push(invalid));
    let changed = () => {};
    const odd = textServer({
      capabilities: CAPABILITIES,
      tools: () => [tool('good'), ...ODD.tools.slice(1, -1).split(/,(?=\{"name")/)],
      answers: LISTED,
      onNotification: () => {},
      call: ({ link }) => {
        changed = () => link.deliver('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
        return textResult('ok');
      },
    });
    await gateway.registerServer('odd', odd);
    await gateway.ready();
    await pause(0);
    const places = reported.map(([server, { list, page, index, item, reason }]) => [
      server,
      list,
      page,
      index,
      item,
      reason,
    ]);
    const expected = [
      ['odd', 'tools/list', 0, 1, 'bare', '"inputSchema" is missing'],
      ['odd', 'tools/list', 0, 2, 'half', '"inputSchema.type" is missing'],
      ['odd', 'tools/list', 0, 3, 'hint', '"annotations.readOnlyHint" is no boolean'],
      ['odd', 'prompts/list', 0, 1, null, '"name" is missing'],
      ['odd', 'prompts/list', 0, 2, 'unnamed', '"arguments[0].name" is missing'],
      ['odd', 'resources/list', 0, 1, 'odd://bare', '"name" is missing'],
      ['odd', 'resources/list', 0, 2, null, '"uri" is missing'],
      ['odd', 'resources/templates/list', 0, 1, 'odd://bare/{x}', '"name" is missing'],
      ['odd', 'resources/templates/list', 0, 2, null, '"uriTemplate" is missing'],
    ];
    assert.deepEqual(places, expected);

    // Each item is reported once per run of the server, however often it is listed.
    await gateway.callTool('odd__good', {});
    const anew = new Promise<void>((resolve) => {
      gateway.on('listItemInvalid', (_server, { item }) => item === 'other' && resolve());
    });
    ODD.tools = ODD.tools.replace('"half"', '"other"');
    changed();
    await anew;
    assert.deepEqual(
      reported.slice(expected.length).map(([, { item }]) => item),
      ['other'],
    );

    const streamed = (await events((event) => JSON.stringify(event).includes('"other"'))).filter(
      ({ type }) => type === 'list_item_invalid',
    );
    assert.deepEqual(
      streamed
        .slice(0, expected.length)
        .map(({ server, list, page, index, item, reason }) => [server, list, page, index, item, reason]),
      expected,
    );
    const endpoints = [mcpUrl, new URL('/servers/odd/mcp', mcpUrl).href];
    for (const url of endpoints) {
      const mine = url === mcpUrl ? ['odd__good', 'odd__good'] : ['good', 'good'];
      for (const list of await listed(url, controlToken))
        assert.deepEqual(list, [[mine[0]], [mine[1]], ['g'], ['g']], url);
    }
  },
);

test(
  'S2.12 S2.30 a number that is infinite in JavaScript passes byte for byte, and breaks nothing that reads it',
  LIMIT,
  async () => {
    await using gateway = await createGateway({});
    const { controlUrl, controlToken, mcpUrl } = await gateway.listen({ port: 0, controlPort: 0 });
    const reported: InvalidItem[] = [];
    gateway.on('listItemInvalid', (_server, invalid) => reported.push(invalid));
    const huge = '{"name":"huge","inputSchema":{"type":"object","properties":{"n":{"type":"number","maximum":1E400}}}}';
    let received = '';
    const odd = textServer({
      tools: () => [huge, tool('echo', ',"title":"1E400"')],
      call: ({ args }) => {
        received = args;
        return `{"content":[],"structuredContent":{"n":1E400,"m":-1e999},"_meta":{"n":1E400}}`;
      },
    });
    await gateway.registerServer('odd', odd);
    await gateway.ready();
    const headers = {
      authorization: `Bearer ${controlToken}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-06-18',
    };
    const post = async (path: string, body: string, session: Record<string, string> = {}) =>
      fetch(new URL(path, mcpUrl), { method: 'POST', headers: { ...headers, ...session }, body });
    const opened = async (path: string) => {
      const handshake = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"n":{"v":1E400}}},"clientInfo":{"name":"c","version":"1"}}}`;
      const answer = await post(path, handshake);
      await answer.text();
      return { 'mcp-session-id': answer.headers.get('mcp-session-id')! };
    };
    const own = await opened('/servers/odd/mcp');
    const list = await (await post('/servers/odd/mcp', '{"jsonrpc":"2.0","id":2,"method":"tools/list"}', own)).text();
    assert.ok(list.includes(huge), list);
    const all = await opened('/mcp');
    const merged = await (await post('/mcp', '{"jsonrpc":"2.0","id":2,"method":"tools/list"}', all)).text();
    assert.ok(merged.includes('odd__echo') && !merged.includes('huge'), merged);
    assert.deepEqual(
      reported.map(({ item, reason }) => [item, reason]),
      [['huge', 'it contains a number that is larger than any double']],
    );

    const call = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"odd__echo","arguments":{"n":1E400,"m":[-1e999]},"_meta":{"x":1E400}}}`;
    const answer = await (await post('/mcp', call, all)).text();
    assert.equal(received, '{"n":1E400,"m":[-1e999]}');
    assert.ok(answer.includes('"structuredContent":{"n":1E400,"m":-1e999},"_meta":{"n":1E400}'), answer);

    assert.deepEqual(
      (await gateway.tools()).map(({ name }) => name),
      ['odd__echo'],
    );
    const result = await gateway.callTool('odd__echo', {});
    assert.equal((result as { structuredContent: { n: number } }).structuredContent.n, Number.POSITIVE_INFINITY);
    for (const path of [
      '/api/v1/tools',
      '/api/v1/servers',
      '/api/v1/sessions',
      '/api/v1/drift',
      '/api/v1/servers/odd',
    ]) {
      const answer = await fetch(`${controlUrl}${path}`, { headers });
      assert.equal(answer.status, 200, path);
      await answer.json();
    }
    for (const found of await listed(mcpUrl, controlToken)) assert.deepEqual(found, [['odd__echo']]);
  },
);

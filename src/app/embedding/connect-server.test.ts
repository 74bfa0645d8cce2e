import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { startConformanceServer } from '../../../test/fixtures/conformance/http.ts';
import { LegacySseServer } from '../../../test/fixtures/http/legacy-sse.ts';
import { PlainJsonServer } from '../../../test/fixtures/http/plain-json.ts';
import { textResult, textServer, tool } from '../../../test/support/text-server.ts';
import { connectServer, createGateway, type ServerClient, type ServerDefinition } from '../../index.ts';

const STDIO = resolve(import.meta.dirname, '../../../test/fixtures/conformance/stdio.ts');

/** Uses the operations that every client has, with any transport and revision. */
async function exercise(client: ServerClient, called: string): Promise<void> {
  const info = await client.initialize();
  assert.equal(client.isInitialized, true);
  assert.deepEqual(client.serverInfo, info);
  assert.deepEqual(await client.initialize(), info);
  const tools = await client.refreshTools();
  assert.ok(tools.some(({ name }) => name === called));
  assert.deepEqual(client.tools, tools);
  assert.ok((await client.ping()) >= 0);
  const { content, raw } = await client.callTool(called, called === 'echo' ? { text: 'hi' } : {});
  assert.equal(content[0]?.type, 'text');
  assert.deepEqual(JSON.parse(raw).content, content);
}

for (const era of ['stateful', 'stateless'] as const) {
  test(`S2.5 S2.7 S2.10 a client over Streamable HTTP, ${era}`, async () => {
    const server = await startConformanceServer(era);
    try {
      await using client = await connectServer({ url: server.url }, { name: 'web' });
      assert.deepEqual([client.name, client.endpoint], ['web', server.url]);
      await exercise(client, 'test_simple_text');
    } finally {
      await server.close();
    }
  });

  test(`S2.9 S4.3 a client of a local process, ${era}; closing it ends the process`, async () => {
    const client = await connectServer({ command: process.execPath, args: [STDIO, era] });
    assert.deepEqual([client.name, client.endpoint, client.isInitialized], ['server', null, false]);
    await exercise(client, 'test_simple_text');
    await client.close();
    await assert.rejects(client.callTool('test_simple_text'), { name: 'GatewayError' });
  });
}

for (const era of ['stateful', 'stateless'] as const) {
  test(`S2.7 a ping is a request on the wire, and fails where no answer comes, ${era}`, async () => {
    const asked: string[] = [];
    let silent = false;
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk) => {
        body += chunk;
      });
      request.on('end', () => {
        const { method } = (body === '' ? {} : JSON.parse(body)) as { method?: string };
        if (method !== undefined) asked.push(method);
        if (silent) {
          response.destroy();
          return;
        }
        const headers = { ...request.headers, host: new URL(behind.url).host };
        const passed = forward(behind.url, { method: request.method, headers }, (answer) => {
          response.writeHead(answer.statusCode!, answer.headers);
          answer.pipe(response);
        });
        passed.on('error', () => response.destroy());
        response.on('close', () => passed.destroy());
        passed.end(body);
      });
    });
    const behind = await startConformanceServer(era);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      await using client = await connectServer({
        url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
      });
      await client.initialize();
      const question = era === 'stateful' ? 'ping' : 'server/discover';
      const before = asked.filter((method) => method === question).length;
      await client.ping();
      assert.equal(asked.filter((method) => method === question).length, before + 1);
      silent = true;
      await assert.rejects(client.ping(), { name: 'GatewayError' });
    } finally {
      server.closeAllConnections();
      server.close();
      await behind.close();
    }
  });
}

test('S4.4 a client over plain JSON', async () => {
  const server = await PlainJsonServer.start();
  await using client = await connectServer({ url: server.url, type: 'json' });
  await exercise(client, 'echo');
  await server.stop();
});

test('S2.21 a client over HTTP+SSE of 2024-11-05', async () => {
  const server = await LegacySseServer.start();
  await using client = await connectServer({ url: `${server.stage.origin}/sse`, type: 'sse' });
  await exercise(client, 'echo');
  await server.stop();
});

test('S2.11 a refresh reads every page; a failed one changes nothing; a repeated cursor is an error', async () => {
  let mode: 'good' | 'broken' | 'circle' = 'good';
  const page = (name: string, next?: string): string =>
    `{"tools":[${tool(name)}]${next === undefined ? '' : `,"nextCursor":"${next}"`}}`;
  const server = textServer({
    answers: {
      'tools/list': (params) => {
        if (mode === 'broken') throw new Error('crashed while listing');
        if (mode === 'circle') return page('again', 'x');
        return params === '{}' ? page('one', 'x') : page('two');
      },
    },
  });
  await using client = await connectServer(server);
  await client.refreshTools();
  assert.deepEqual(
    client.tools.map(({ name }) => name),
    ['one', 'two'],
  );
  mode = 'circle';
  await assert.rejects(client.refreshTools(), { code: 'UPSTREAM_PROTOCOL' });
  assert.deepEqual(
    client.tools.map(({ name }) => name),
    ['one', 'two'],
  );
});

/** Lists one tool more each time and announces nothing; does not answer while the file `HANG` exists. */
const GROWING = `
  let lists = 0;
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    const answer = (result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
    if (method === 'initialize') {
      answer({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'g', version: '1' } });
    } else if (method === 'ping') answer({});
    else if (method === 'tools/list') {
      if (require('node:fs').existsSync(process.env.HANG)) return;
      lists++;
      answer({ tools: Array.from({ length: lists }, (_, i) => ({ name: 't' + i, inputSchema: { type: 'object' } })) });
    } else if (id !== undefined) {
      console.log(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: method } }));
    }
  });`;

for (const isolation of ['session', 'shared'] as const) {
  test(`S2.9 S2.11 S2.32 a refresh asks a local process, too, and fails if that does not answer: ${isolation}`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-refresh-'));
    try {
      const env = { HANG: join(folder, 'hang') };
      const program = { command: process.execPath, args: ['-e', GROWING], env };
      await using client = await connectServer({ ...program, isolation, timeoutMs: 2_000 });
      await client.initialize();
      const sizes: number[] = [];
      for (let i = 0; i < 3; i++) sizes.push((await client.refreshTools()).length);
      assert.ok(sizes[0]! > 1 && sizes[1]! > sizes[0]! && sizes[2]! > sizes[1]!, `${sizes}`);
      const { tools } = client;
      assert.equal(tools.length, sizes[2]);
      writeFileSync(env.HANG, '');
      await assert.rejects(client.refreshTools(), { name: 'GatewayError', code: 'TIMEOUT' });
      assert.deepEqual(client.tools, tools);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

test('S2.10 S2.26 `initialize` and `registerServer` wait as long as start and list of the server may take', async (t) => {
  const waits = t.mock.method(globalThis, 'setTimeout').mock;
  const waited = (): readonly unknown[] => waits.calls.map(({ arguments: [, ms] }) => ms);
  const slow = { command: process.execPath, args: [STDIO, 'stateful'], startupTimeoutMs: 123_000, timeoutMs: 4_000 };
  await using client = await connectServer(slow);
  await client.initialize();
  assert.ok(waited().includes(127_000), 'initialize');
  await client.close();
  waits.resetCalls();
  await using gateway = await createGateway();
  assert.equal((await gateway.registerServer('slow', slow)).state, 'running');
  assert.ok(waited().includes(127_000), 'registerServer');
});

test('S2.12 S2.13 a client passes arguments digit for digit, and names unchanged', async () => {
  const server = textServer({ name: 'mine', tools: () => [tool('echo')], call: ({ args }) => textResult(args) });
  await using client = await connectServer(server);
  assert.deepEqual(await client.initialize(), { name: 'mine', version: '1.0.0', title: 'The mine server' });
  const { content } = await client.callTool('echo', '{"n":12345678901234567890}');
  assert.equal(content[0]?.text, '{"n":12345678901234567890}');
  await assert.rejects(client.callTool('echo', 'not json'), { code: 'INVALID_PARAMS' });
  await assert.rejects(client.callTool('echo', '[1]'), { code: 'INVALID_PARAMS' });
});

test('S2.22 an invalid definition is refused at once, with the reason', async () => {
  const refused = (definition: object, message: RegExp) =>
    assert.rejects(connectServer(definition as ServerDefinition), { name: 'ConfigError', message });
  await refused({}, /neither a command nor a url/);
  await refused({ command: 'x', url: 'http://127.0.0.1/' }, /both command and url/);
  await refused({ type: 'carrier-pigeon', url: 'http://127.0.0.1/' }, /unsupported MCP server type/);
});

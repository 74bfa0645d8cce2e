import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createMCPClient } from '@ai-sdk/mcp';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as SseV1 } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { runAgent } from '../support/agents/agent.ts';
import { AGENTS } from '../support/agents/agents.ts';
import { FOUR_SERVERS, ONE_CALL_EACH } from '../support/four-servers.ts';
import { runProgram } from '../support/run-program.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** Without declared capabilities: 13 + 9 + 14 + 1. Clients that declare some are offered more by `everything`. */
const LEAST_TOOLS = 37;

interface AnyClient {
  listTools(): Promise<{ tools: { name: string }[] }>;
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  close(): Promise<void>;
}

async function useAll(client: AnyClient): Promise<void> {
  try {
    await listAndCall(client);
  } finally {
    await client.close();
  }
}

async function listAndCall(client: AnyClient): Promise<void> {
  let { tools } = await client.listTools();
  // A gateway that has just started on a slow machine lists the servers that were ready in time, and later the others.
  for (const end = performance.now() + 30_000; tools.length < LEAST_TOOLS && performance.now() < end; ) {
    await new Promise((done) => setTimeout(done, 100));
    ({ tools } = await client.listTools());
  }
  assert.ok(tools.length >= LEAST_TOOLS, `${tools.length} tools`);
  for (const { server, tool, args, answer } of ONE_CALL_EACH) {
    assert.ok(tools.some(({ name }) => name === `${server}__${tool}`));
    const result = JSON.stringify(await client.callTool({ name: `${server}__${tool}`, arguments: args }));
    assert.ok(result.includes(answer), result);
  }
}

describe('real clients list the tools of all four servers and call one on each', { timeout: 170_000 }, () => {
  let gateway: RunningGateway;
  before(async () => {
    gateway = await RunningGateway.start({ config: FOUR_SERVERS });
    await gateway.ready();
  });
  after(() => gateway.dispose());

  test('check:B7 SDK 1.32 over Streamable HTTP', async () => {
    const client = new ClientV1({ name: 'v1', version: '1' });
    await client.connect(new HttpV1(new URL(gateway.mcpUrl)) as never);
    await useAll(client as never);
  });

  test('check:B5 SDK 1.32 over HTTP+SSE of 2024-11-05', async () => {
    const client = new ClientV1({ name: 'v1-sse', version: '1' });
    await client.connect(new SseV1(new URL(gateway.mcpUrl.replace('/mcp', '/sse'))) as never);
    await useAll(client as never);
  });

  for (const mode of ['legacy', 'auto'] as const) {
    test(`SDK 2.4, version negotiation ${mode}`, async () => {
      const client = new Client({ name: 'v2', version: '1' }, { versionNegotiation: { mode } });
      await client.connect(new StreamableHTTPClientTransport(new URL(gateway.mcpUrl)));
      assert.equal(client.getNegotiatedProtocolVersion(), mode === 'auto' ? '2026-07-28' : '2025-11-25');
      await useAll(client as never);
    });
  }

  test('check:B10 SDK 2.4 over trunkline stdio', async () => {
    const client = new Client({ name: 'v2-stdio', version: '1' });
    const args = [
      resolve(ROOT, 'bin/trunkline.js'),
      'stdio',
      '--data-dir',
      join(gateway.folder, 'stdio'),
      join(gateway.folder, 'trunkline.json'),
    ];
    await client.connect(new StdioClientTransport({ command: process.execPath, args }));
    await useAll(client as never);
  });

  test('AI SDK', async () => {
    const client = await createMCPClient({ transport: { type: 'http', url: gateway.mcpUrl } });
    const tools = await client.tools();
    assert.ok(Object.keys(tools).length >= LEAST_TOOLS);
    for (const { server, tool, args, answer } of ONE_CALL_EACH) {
      const execute = tools[`${server}__${tool}`]!.execute as (args: object, options: object) => Promise<unknown>;
      const result = await execute(args, { toolCallId: '1', messages: [] });
      assert.ok(JSON.stringify(result).includes(answer));
    }
    await client.close();
  });

  for (const era of ['legacy', 'modern'] as const) {
    test(`Inspector CLI, ${era}`, async () => {
      const config = join(gateway.folder, `inspector-${era}.json`);
      writeFileSync(
        config,
        JSON.stringify({ mcpServers: { tl: { type: 'streamable-http', url: gateway.mcpUrl, protocolEra: era } } }),
      );
      const inspect = async (...args: string[]) => {
        const { code, out, err } = await runProgram([
          resolve(ROOT, 'node_modules/.bin/inspector'),
          '--cli',
          '--config',
          config,
          '--server',
          'tl',
          ...args,
        ]);
        assert.equal(code, 0, err);
        return JSON.parse(out) as { tools?: unknown[] };
      };
      const { tools } = await inspect('--method', 'tools/list');
      assert.ok(tools!.length >= LEAST_TOOLS);
      for (const { server, tool, args, answer } of ONE_CALL_EACH) {
        const words = Object.entries(args).flatMap(([key, value]) => ['--tool-arg', `${key}=${value}`]);
        const result = await inspect('--method', 'tools/call', '--tool-name', `${server}__${tool}`, ...words);
        assert.ok(JSON.stringify(result).includes(answer));
      }
    });
  }

  for (const agent of AGENTS) {
    test(`${agent.name}, with a stand-in for its model`, async (context) => {
      const calls = ONE_CALL_EACH.map(({ server, tool, args }) => ({ tool: `${server}__${tool}`, args }));
      const run = await runAgent(agent, gateway.mcpUrl, calls);
      if (run === null) {
        context.skip(`${agent.name} could not be installed`);
        return;
      }
      assert.equal(run.failure, null);
      assert.ok(run.first.length >= LEAST_TOOLS, `${run.first.length} tools in its first request to the model`);
      ONE_CALL_EACH.forEach(({ answer }, i) => {
        assert.ok(run.results[i]?.includes(answer), run.results[i]);
      });
    });
  }
});

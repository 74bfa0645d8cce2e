import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import type { ServerStatus } from '../../src/model/server-state.ts';
import { MARK } from '../support/processes.ts';
import { WireClient } from '../support/wire-client.ts';
import { FaultBench, until } from './fault-bench.ts';

const STDIO = resolve(import.meta.dirname, '../fixtures/conformance/stdio.ts');
/** Longer than any silence that a handshake interprets. */
const SLOW_S = 7;

/** A server of 2024 that reads its input line by line; `odd` is what it does about a request that it does not know. */
const OLD = (odd: string) => `
const answer = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
let ready = false;
let elicits = false;
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize') {
    ready = true;
    elicits = params.capabilities.elicitation !== undefined;
    const serverInfo = { name: 'old', version: '1' };
    answer(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo });
  } else if (method === 'tools/list') {
    const names = elicits ? ['hello', 'ask'] : ['hello'];
    answer(id, { tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) });
  }
  else if (method === 'ping') answer(id, {});
  else if (!ready) { ${odd} }
});`;

test('S1.14 servers that need 7 s for their first answer are started once, of both eras, and old ones too', async (t) => {
  const bench = new FaultBench(t);
  const starts = join(bench.folder, 'starts');
  writeFileSync(starts, '');
  const server = (name: string, waitS: number, ...args: string[]) => ({
    command: 'sh',
    args: ['-c', `echo ${name} >> "$STARTS"; sleep ${waitS}; exec "$@"`, 'sh', process.execPath, ...args],
    env: { [MARK]: bench.mark, STARTS: starts },
  });
  await bench.start({
    stateless: server('stateless', SLOW_S, STDIO, 'stateless'),
    both: server('both', SLOW_S, STDIO, 'both'),
    stateful: server('stateful', SLOW_S, STDIO, 'stateful'),
    ignores: server('ignores', SLOW_S, '-e', OLD('')),
    dies: server('dies', SLOW_S, '-e', OLD('process.exit(1)')),
    quick: server('quick', 0, '-e', OLD('')),
  });
  const status = (name: string) => bench.gateway.control<ServerStatus>(`/api/v1/servers/${name}`);
  await until(
    'all are up',
    async () => {
      const { servers } = await bench.gateway.control<{ servers: ServerStatus[] }>('/api/v1/servers');
      return servers.every(({ state, toolCount }) => state === 'running' && toolCount > 0);
    },
    60_000,
  );
  const counts: Record<string, number> = {};
  for (const name of readFileSync(starts, 'utf8').trim().split('\n')) counts[name] = (counts[name] ?? 0) + 1;
  // An old server that exits on what it does not know has to be started once more, without that.
  assert.deepEqual(counts, { stateless: 1, both: 1, stateful: 1, ignores: 1, dies: 2, quick: 1 });
  assert.equal((await status('stateless')).era, 'stateless');
  assert.equal((await status('both')).era, 'stateless');
  assert.equal((await status('stateful')).era, 'stateful');
  assert.ok((await status('quick')).startedInMs! < 5_000, 'one that ignores the probe waits for its end only');
});

test('a client with capabilities that no client had before is shown at once what others are shown, then its own', {
  timeout: 60_000,
}, async (t) => {
  const bench = new FaultBench(t);
  const slow = (...args: string[]) => ({
    command: 'sh',
    args: ['-c', 'sleep 2; exec "$@"', 'sh', process.execPath, ...args],
    env: { [MARK]: bench.mark },
  });
  await bench.start({ old: slow('-e', OLD('')), both: slow(STDIO, 'both'), stateless: slow(STDIO, 'stateless') });
  await bench.gateway.ready();
  const client = new Client({ name: 'new', version: '1' }, { capabilities: { elicitation: {} } });
  let told = 0;
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void told++);
  await client.connect(new StreamableHTTPClientTransport(new URL(bench.gateway.mcpUrl)) as never);
  const names = async () => (await client.listTools()).tools.map(({ name }) => name);
  const first = await names();
  for (const name of ['old', 'both', 'stateless'])
    assert.ok(
      first.some((tool) => tool.startsWith(`${name}__`)),
      name,
    );
  assert.ok(!first.includes('old__ask'));
  await until('what only this kind of client is offered', async () => told > 0 && (await names()).includes('old__ask'));
  // The kind that was there before is shown what it was.
  const other = await WireClient.open(bench.gateway.mcpUrl);
  assert.ok(!(await other.toolNames()).includes('old__ask'));
  await client.close();
});

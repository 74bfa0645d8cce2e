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
    const names = elicits ? ['hello', 'ask'] : ['handshake'];
    answer(id, { tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) });
  }
  else if (method === 'ping') answer(id, {});
  else if (!ready) { ${odd} }
});`;

test('S1.14 servers that need 7 s for their first answer start, of either era or both, and old ones too', async (t) => {
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
  // An old server that exits on an unknown request is started again without that request. A server of both eras is started
  // again the first time, because it had accepted both handshakes.
  assert.deepEqual(counts, { stateless: 1, both: 2, stateful: 1, ignores: 1, dies: 2, quick: 1 });
  assert.equal((await status('stateless')).era, 'stateless');
  assert.equal((await status('both')).era, 'stateless');
  assert.equal((await status('stateful')).era, 'stateful');
  assert.ok((await status('quick')).startedInMs! < 5_000, 'a server that ignores the probe is delayed by it only');
});

/** A server of 2026-07-28 that is slow, writes down what it gets, and does `odd` about `initialize`. */
const MODERN = (odd: string) => `
const { appendFileSync } = require('node:fs');
const note = (text) => appendFileSync(process.env.SEEN, process.env.NAME + ' ' + text + '\\n');
note('start');
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const answer = (id, result) => send({ id, result: { resultType: 'complete', ...result } });
const more = { ttlMs: 0, cacheScope: 'private' };
let first = '';
setTimeout(() => require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  note(method);
  first ||= method;
  if (method === 'server/discover')
    answer(id, { supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, ...more });
  else if (method === 'initialize') { ${odd} }
  else if (method === 'tools/list') answer(id, { tools: [{ name: 'pid', inputSchema: { type: 'object' } }], ...more });
  else if (method === 'tools/call') answer(id, { content: [{ type: 'text', text: 'pid ' + process.pid }] });
  else if (id !== undefined) send({ id, error: { code: -32601, message: 'unknown' } });
}), process.env.WAIT_MS);`;

function modern(bench: FaultBench, name: string, odd: string, more: object = {}) {
  const env = { [MARK]: bench.mark, SEEN: join(bench.folder, 'seen'), NAME: name, WAIT_MS: '5000' };
  return { command: process.execPath, args: ['-e', MODERN(odd)], env, ...more };
}

/** What the processes of this server got, each from its start on. */
function seenBy(bench: FaultBench, name: string): string[][] {
  const seen: string[][] = [];
  for (const line of readFileSync(join(bench.folder, 'seen'), 'utf8').trim().split('\n')) {
    const [whose, what] = line.split(' ');
    if (whose !== name) continue;
    if (what === 'start') seen.push([]);
    else if (what !== 'tools/list') seen.at(-1)!.push(what!);
  }
  return seen;
}

test('S1.14 a slow server of 2026-07-28 that ends on initialize starts again without it, also at later starts', {
  timeout: 90_000,
}, async (t) => {
  const bench = new FaultBench(t);
  await bench.start({
    ends: modern(bench, 'ends', 'process.exit(9)'),
    later: modern(bench, 'later', 'setTimeout(() => process.exit(9), 2600)'),
    // Two starts of it do not fit into one start time limit.
    limited: modern(bench, 'limited', 'process.exit(9)', { startupTimeoutMs: 8_000 }),
  });
  const names = ['ends', 'later', 'limited'];
  const up = async (name: string) => {
    const { state, toolCount } = await bench.status(name);
    return state === 'running' && toolCount === 1 && seenBy(bench, name).length > 1;
  };
  await until('all are up', async () => (await Promise.all(names.map(up))).every(Boolean), 60_000);
  const [both, alone] = [['server/discover', 'initialize'], ['server/discover']];
  assert.deepEqual(seenBy(bench, 'ends'), [both, alone]);
  assert.deepEqual(seenBy(bench, 'later'), [both, alone]);
  // The first start's second process is ended by the limit before it reads.
  assert.deepEqual(seenBy(bench, 'limited'), [both, [], alone]);
  // A client of the old era asks for no process that would end as well.
  const client = await WireClient.open(bench.gateway.mcpUrl);
  assert.match(await client.callText('ends__pid'), /^pid \d+$/);
  assert.deepEqual(seenBy(bench, 'ends'), [both, [...alone, 'tools/call']]);
});

test('S1.14 a slow server of both eras that refuses initialize after server/discover serves old clients with another process', {
  timeout: 90_000,
}, async (t) => {
  const bench = new FaultBench(t);
  // As servers of the Python SDK 2 do: the first request decides on the era of the pipe.
  const supported = '{ supported: ["2026-07-28"], requested: "2025-11-25" }';
  const handshake =
    '{ protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } }';
  const odd = `
    if (first === 'initialize') answer(id, ${handshake});
    else send({ id, error: { code: -32022, message: 'this connection is serving 2026-07-28', data: ${supported} } });`;
  await bench.start({ both: modern(bench, 'both', odd) });
  await until('it is up', async () => (await bench.status('both')).toolCount === 1, 60_000);
  const client = await WireClient.open(bench.gateway.mcpUrl);
  assert.match(await client.callText('both__pid'), /^pid \d+$/);
  const [first, second] = seenBy(bench, 'both');
  assert.deepEqual(first, ['server/discover', 'initialize']);
  assert.equal(second![0], 'initialize');
  assert.ok(second!.includes('tools/call'), 'a process that took initialize runs the call');
});

test('a client with new capabilities first gets the lists of others, then its own', {
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
  let reported = 0;
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void reported++);
  await client.connect(new StreamableHTTPClientTransport(new URL(bench.gateway.mcpUrl)) as never);
  const names = async () => (await client.listTools()).tools.map(({ name }) => name);
  const first = await names();
  for (const name of ['old', 'both', 'stateless'])
    assert.ok(
      first.some((tool) => tool.startsWith(`${name}__`)),
      name,
    );
  assert.ok(!first.includes('old__ask'));
  await until(
    'the tools that only this kind of client gets',
    async () => reported > 0 && (await names()).includes('old__ask'),
  );
  // Clients of the earlier kind get the same list as before.
  const other = await WireClient.open(bench.gateway.mcpUrl);
  assert.ok(!(await other.toolNames()).includes('old__ask'));
  await client.close();
});

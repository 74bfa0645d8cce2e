import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { MARK, survivors } from '../support/processes.ts';
import { FaultBench, until } from './fault-bench.ts';
import { InProcessGateway } from './in-process.ts';
import { checkLedger } from './ledger/check-ledger.ts';
import { History } from './ledger/history.ts';
import { LedgerClient } from './ledger/ledger-client.ts';
import { entriesOf, executed, readLedger } from './ledger/ledger-entry.ts';
import { LedgerHttpProcess, ledgerStdio } from './ledger/ledger-process.ts';
import { FULL, measured } from './measured.ts';

const MIB = 1024 * 1024;

test('fault:F16 fault:F18 goal:G16 50 clients that never read their streams: the gateway holds little for them, cuts them, and others are unaffected', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-faults-'));
  const ledger = join(folder, 'one.jsonl');
  const mark = randomUUID();
  const one = ledgerStdio(ledger, 'stateful', { isolation: 'shared', env: { [MARK]: mark } });
  const other = ledgerStdio(ledger, 'stateful', { isolation: 'shared', env: { [MARK]: mark } });
  const gateway = await InProcessGateway.start(folder, { mcpServers: { one, other } }, 2_000);
  const stalled: Socket[] = [];
  const history = new History();
  const opened = async (name: string): Promise<LedgerClient> => {
    const client = new LedgerClient({ url: gateway.url, era: 'stateful', name, history });
    t.after(() => client.close());
    await client.open();
    return client;
  };
  t.after(async () => {
    for (const socket of stalled) socket.destroy();
    await gateway.close();
    rmSync(folder, { recursive: true, force: true });
    assert.deepEqual(await survivors(mark, 5_000), []);
  });
  const reader = await opened('reader');
  assert.equal((await reader.call('other__unsafe')).ending, 'RESULT');
  let mostHeld = 0;
  const watch = setInterval(() => {
    mostHeld = Math.max(mostHeld, gateway.wheel.heldBytes);
  }, 10);
  t.after(() => clearInterval(watch));
  const url = new URL(gateway.url);
  for (let i = 0; i < 50; i++) {
    const { sessionId } = await opened(`stalled${i}`);
    const socket = connect(Number(url.port), url.hostname).on('error', () => {});
    socket.pause();
    stalled.push(socket);
    const args = { call: `stalled${i}`, times: 64, bytes: 64 * 1024 };
    const params = { name: 'one__chatter', arguments: args, _meta: { progressToken: `t${i}` } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: i, method: 'tools/call', params });
    socket.write(
      `POST /mcp HTTP/1.1\r\nhost: ${url.host}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n` +
        `mcp-session-id: ${sessionId}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
  }
  await until('they stall', () => gateway.wheel.heldBytes > MIB, 30_000);
  for (let i = 0; i < 50; i++) {
    assert.equal((await reader.call('other__unsafe')).ending, 'RESULT');
  }
  await until('all are cut', () => gateway.wheel.open === 0, 30_000);
  assert.equal(gateway.wheel.heldBytes, 0);
  assert.ok(mostHeld <= 24 * MIB + 64 * 1024, `${mostHeld} bytes were held for them`);
  // The server that they called still works, too.
  assert.equal((await reader.call('one__unsafe')).ending, 'RESULT');
  assert.equal((await reader.call('other__unsafe')).ending, 'RESULT');
  const own = readLedger(ledger).filter((entry) => entry.event !== 'executed' || entry.tool !== 'chatter');
  const evidence = { attempts: history.attempts, ledger: own, repeatable: new Set<string>(), deadlineMs: 60_000 };
  assert.deepEqual(checkLedger(evidence), []);
});

async function vanishing(t: TestContext, transport: 'stdio' | 'http'): Promise<void> {
  const bench = new FaultBench(t);
  const era = 'stateful';
  let one = bench.stdio('one', era, { isolation: 'shared' });
  if (transport === 'http') {
    const remote = await LedgerHttpProcess.start(bench.ledger('one'), 'stateless');
    t.after(() => remote.kill());
    one = { type: 'http', url: remote.url };
  }
  await bench.start({ one });
  await bench.gateway.ready();
  const cancelled = (call: string): boolean => entriesOf(bench.ledger('one'), 'cancelled').some((e) => e.call === call);

  const modern = await bench.opened('modern', 'stateless');
  const gone = modern.call('one__slow', { ms: 4_000 }, { abandonAfterMs: 700 });
  await until('it is in flight', () => executed(bench.ledger('one'), 'modern-1') === 1);
  const { call, endedAt } = await gone;
  await until('the server receives the cancellation', () => cancelled(call));
  const reportedMs = performance.now() - endedAt!;
  assert.ok(reportedMs < 4_000, `${reportedMs} ms`);
  measured(
    t,
    'F17',
    `from the end of the client to the cancellation at the server, ${transport}`,
    reportedMs,
    'ms',
    200,
  );

  const legacy = await bench.opened('legacy', 'stateful');
  const left = await legacy.call('one__slow', { ms: 1_500 }, { abandonAfterMs: 700 });
  await sleep(1_500);
  assert.equal(executed(bench.ledger('one'), left.call), 1);
  assert.ok(!cancelled(left.call), 'a lost connection is no cancellation in the stateful revisions');
  for (const client of [modern, legacy]) assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  assert.deepEqual(bench.violations(['one']), []);
}

test('fault:F17 a client vanishes during a call, server on a pipe: cancelled for a modern client, finished for a legacy one', (t) =>
  vanishing(t, 'stdio'));

test('fault:F17 a client vanishes during a call, server behind a URL: cancelled for a modern client, finished for a legacy one', (t) =>
  vanishing(t, 'http'));

test('fault:F19 sessions opened and abandoned: no process for any, refused above the limit with Retry-After, expired in the end', async (t) => {
  const bench = new FaultBench(t);
  const max = FULL ? 10_000 : 1_000;
  const settings = { sessions: { max, maxPerPrincipal: max, idleMs: FULL ? 20_000 : 5_000 } };
  await bench.start({ one: bench.stdio('one') }, settings);
  await bench.gateway.ready();
  const before = (await bench.pids('one')).length;
  const client = bench.client('abandoning');
  const statuses = new Map<number, number>();
  let retryAfter: string | null = null;
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let i = 0; i < max / 8 + 1; i++) {
        const response = await initialize(client.url);
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
        if (response.status === 429) retryAfter = response.headers.get('retry-after');
      }
    }),
  );
  assert.deepEqual([...statuses].sort(), [
    [200, max],
    [429, 8],
  ]);
  assert.ok(Number(retryAfter) >= 1, `${retryAfter}`);
  assert.equal((await bench.pids('one')).length, before);
  const modern = await bench.opened('modern', 'stateless');
  assert.equal((await modern.call('one__unsafe')).ending, 'RESULT', 'a full gateway still serves other clients');
  await until(
    'they have expired',
    async () => (await bench.gateway.control<{ sessions: unknown[] }>('/api/v1/sessions')).sessions.length === 0,
    60_000,
  );
  const again = await bench.opened('again');
  assert.equal((await again.call('one__unsafe')).ending, 'RESULT');
  assert.deepEqual(bench.violations(['one']), []);
});

async function initialize(url: string): Promise<Response> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'gone', version: '1' } };
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
  });
  await response.arrayBuffer();
  return response;
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FaultBench, until } from './fault-bench.ts';
import type { LedgerClient } from './ledger/ledger-client.ts';
import { entriesOf } from './ledger/ledger-entry.ts';
import { FULL } from './measured.ts';

/** Size of the old generation, in MiB; the test suite has time to fill a quarter of it. */
const HEAP_MIB = FULL ? 256 : 64;
/** Size of the client information that a session keeps. */
const INFO_BYTES = 60 * 1024;
/** The load, in multiples of the heap. */
const LOAD = 3;

test(`fault:F40 a load of ${LOAD} heaps: no new sessions from 80 %, no large bodies from 90 %, calls go on, the gateway survives and recovers`, async (t) => {
  const bench = new FaultBench(t);
  const one = bench.stdio('one', 'stateful', { isolation: 'shared' });
  const sessions = { max: 200_000, maxPerPrincipal: 200_000, idleMs: 3_600_000 };
  await bench.start({ one }, { sessions }, { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` });
  const { process: gateway } = bench.gateway;
  gateway.once('exit', (_code, signal) => {
    if (signal !== null) t.diagnostic(`the gateway was ended by ${signal}: ${bench.gateway.stderr.slice(-3_000)}`);
  });
  await bench.gateway.ready();
  const early = await bench.opened('early');
  assert.equal((await early.call('one__unsafe')).ending, 'RESULT');

  // Only sessions beyond the limit are refused; calls go on.
  const wanted = Math.ceil((LOAD * HEAP_MIB * 1024 * 1024) / INFO_BYTES);
  const opened: string[] = [];
  let refused = 0;
  let asked = 0;
  const filling = Array.from({ length: 8 }, async () => {
    while (asked < wanted) {
      const n = ++asked;
      const { status, session, retryAfter } = await initialize(early.url, `${n}${'x'.repeat(INFO_BYTES)}`);
      if (session !== null) opened.push(session);
      else {
        assert.equal(status, 429);
        assert.ok(Number(retryAfter) >= 1, `${retryAfter}`);
        refused++;
      }
    }
  });
  let full = false;
  void Promise.all(filling).finally(() => (full = true));
  const modern = await bench.opened('modern', 'stateless');
  while (!full) {
    for (const client of [early, modern]) {
      const attempt = await client.call('one__unsafe');
      assert.equal(attempt.ending, 'RESULT', attempt.reason);
    }
  }
  await Promise.all(filling);
  assert.ok(refused > wanted / 3, `${refused} of ${wanted} were refused`);
  assert.ok(opened.length > wanted / 20, `only ${opened.length} sessions were opened`);
  assert.ok((await share(bench)) >= 0.8);

  // Calls that wait for their server take the rest: large bodies are refused next, small ones are not.
  const waiting: Promise<unknown>[] = [];
  const crowd: LedgerClient[] = [];
  let reason = '';
  await until(
    'a large body is refused',
    async () => {
      const attempt = await modern.call('one__unsafe', { text: 'z'.repeat(300_000) });
      reason = attempt.reason;
      if (attempt.ending === 'REFUSED') {
        // The log line that the gateway wrote before its answer may be read later.
        await delay(500);
        const taken = takenWhenScarce(bench.gateway.stderr);
        // A gateway without processor time refuses too, whatever memory it has: then the test asks again.
        if (taken.length === 0) return false;
        // The gateway logs this only when it has measured at least 90 % itself.
        assert.ok(Math.min(...taken) >= 90, bench.gateway.stderr.slice(-3_000));
        return true;
      }
      assert.equal(attempt.ending, 'RESULT', attempt.reason);
      const client = await bench.opened(`crowd${crowd.length}`, 'stateless');
      crowd.push(client);
      for (let i = 0; i < 100; i++) waiting.push(client.call('one__hang', { text: 'y'.repeat(8_000) }));
      await until('they are there', () => entriesOf(bench.ledger('one'), 'executed').length > 0);
      return false;
    },
    120_000,
  );
  assert.match(reason, /too many requests at once/);
  const small = await modern.call('one__unsafe');
  assert.ok(small.ending === 'RESULT' || small.ending === 'REFUSED', small.reason);

  for (const client of crowd) client.close();
  for (const session of opened) await endSession(early.url, session);
  await Promise.all(waiting);
  await until('sessions are opened again', async () => (await initialize(early.url, 'late')).session !== null, 60_000);
  await until('large bodies are taken again', async () => {
    const attempt = await modern.call('one__unsafe', { text: 'z'.repeat(300_000) });
    return attempt.ending === 'RESULT';
  });
  assert.equal(gateway.exitCode, null);
  assert.equal((await early.call('one__unsafe')).ending, 'RESULT');
  // A client that hung up received no answer.
  for (const attempt of bench.history.attempts) if (attempt.tool === 'hang') attempt.abandoned = true;
  assert.deepEqual(bench.violations(['one']), []);
});

/** Used share of the heap or its group, in percent, as the gateway logs it when it begins to refuse large bodies. */
function takenWhenScarce(log: string): number[] {
  const reported = /"event":"memory_short","memory":"(?:scarce|spent)","heap":"(\d+) %","group":"(\d+) %"/g;
  return [...log.matchAll(reported)].map(([, heap, group]) => Math.max(Number(heap), Number(group)));
}

async function share(bench: FaultBench): Promise<number> {
  return Number(/^trunkline_memory_used_ratio (\S+)$/m.exec(await bench.gateway.metrics())?.[1]);
}

async function initialize(
  url: string,
  name: string,
): Promise<{ status: number; session: string | null; retryAfter: string | null }> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name, version: '1' } };
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
  });
  await response.arrayBuffer();
  const { headers, status } = response;
  return { status, session: headers.get('mcp-session-id'), retryAfter: headers.get('retry-after') };
}

async function endSession(url: string, session: string): Promise<void> {
  const response = await fetch(url, {
    method: 'DELETE',
    headers: { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' },
  });
  await response.arrayBuffer();
}

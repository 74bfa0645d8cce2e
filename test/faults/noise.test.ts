import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FaultBench } from './fault-bench.ts';
import { entriesOf, executed } from './ledger/ledger-entry.ts';
import { FULL, measured } from './measured.ts';

const MIB = 1024 * 1024;

function rssOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024;
}

/** User and system time. */
function cpuSecondsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(user) + Number(system)) / 100;
}

test('fault:F06 hundreds of MiB without a newline: a second session is served meanwhile, the server is replaced, memory stays', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one', 'stateful', { timeoutMs: FULL ? 60_000 : 15_000 }) });
  await bench.gateway.ready();
  const flooded = await bench.opened('flooded');
  const second = await bench.opened('second');
  assert.equal((await second.call('one__unsafe')).ending, 'RESULT');
  const base = rssOf(bench.gateway.process.pid!);
  const cpuBefore = cpuSecondsOf(bench.gateway.process.pid!);
  let peak = base;
  let settled = false;
  const flood = flooded.call('one__flood', { mib: FULL ? 1024 : 256 }).finally(() => (settled = true));
  while (!settled) {
    assert.equal((await second.call('one__unsafe')).ending, 'RESULT');
    peak = Math.max(peak, rssOf(bench.gateway.process.pid!));
  }
  measured(t, 'F06', 'CPU of the gateway', cpuSecondsOf(bench.gateway.process.pid!) - cpuBefore, 's', 3);
  measured(t, 'F06', 'growth of resident memory', (peak - base) / MIB, 'MiB', 64);
  assert.equal((await flood).ending, 'UNKNOWN');
  assert.ok(peak - base < 96 * MIB, `grew by ${Math.round((peak - base) / MIB)} MiB`);
  assert.equal((await flooded.call('one__unsafe')).ending, 'RESULT');
  assert.deepEqual(bench.violations(['one']), []);
});

test('fault:F07 fault:F10 fault:F11 fault:F12 garbage, logs, wrong and double ids, unrequested answers: the call is answered correctly', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one', 'stateful', { isolation: 'shared' }) });
  await bench.gateway.ready();
  const one = await bench.opened('one');
  const two = await bench.opened('two');
  const noise = [
    'Server listening on port 3000\n',
    '{"half":\n',
    '\u0000\u0001\u001b[31mred\u001b[0m\n',
    '{"jsonrpc":"2.0","id":424242,"result":{"content":[{"type":"text","text":"done nobody"}]}}\n',
    '{"jsonrpc":"2.0","id":"text","result":{}}\n',
    '{"jsonrpc":"2.0","method":"notifications/unheard_of"}\n',
    '{"jsonrpc":"2.0","id":77,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}\n',
  ];
  for (const text of [...noise, noise.join('')]) {
    const beside = two.call('one__unsafe');
    const attempt = await one.call('one__say', { text });
    assert.equal(attempt.ending, 'RESULT', `${text}: ${attempt.reason}`);
    assert.equal((await beside).ending, 'RESULT');
  }
  // Two answers with the same id: the first counts, and the gateway drops the second.
  const early = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"done CALL"}]}}\n';
  const call = 'doubled';
  const doubled = await one.call('one__say', { text: early.replace('CALL', call) }, { call });
  assert.deepEqual([doubled.ending, doubled.answeredCall], ['RESULT', call]);
  assert.equal((await two.call('one__unsafe')).ending, 'RESULT');
  assert.equal((await bench.status('one')).restarts, 0);
  assert.deepEqual(bench.violations(['one']), []);
});

test('fault:F09 10 MiB pass, more than the limit is TOO_LARGE for that call alone; a second session is served meanwhile', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one', 'stateful', { isolation: 'shared' }) });
  await bench.gateway.ready();
  const one = await bench.opened('one');
  const two = await bench.opened('two');
  for (const [bytes, ending] of [
    [10 * MIB, 'RESULT'],
    [20 * MIB, 'UNKNOWN'],
  ] as const) {
    let settled = false;
    const big = one.call('one__big', { bytes }).finally(() => (settled = true));
    while (!settled) assert.equal((await two.call('one__unsafe')).ending, 'RESULT');
    const attempt = await big;
    assert.equal(attempt.ending, ending, attempt.reason.slice(0, 300));
    if (ending === 'RESULT') assert.equal(attempt.reason.length, `done ${attempt.call} `.length + bytes);
    else assert.match(attempt.reason, /TOO_LARGE|53007/);
  }
  assert.equal((await bench.status('one')).restarts, 0);
  assert.deepEqual(bench.violations(['one']), []);
});

test('fault:F12 50 000 announcements of changed tools: at most 3 lists a server, and calls go on', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one', 'stateful', { isolation: 'shared' }) });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  await client.request('tools/list');
  const before = entriesOf(bench.ledger('one'), 'listed').length;
  const attempt = await client.call('one__announce', { times: 50_000 });
  assert.equal(attempt.ending, 'RESULT', attempt.reason);
  const took = attempt.endedAt! - attempt.startedAt;
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  await sleep(1_300);
  const lists = entriesOf(bench.ledger('one'), 'listed').length - before;
  measured(t, 'F12', 'lists after 50 000 announcements', lists, '');
  assert.ok(lists >= 1 && lists <= Math.max(3, Math.ceil(took / 1_000) + 2), `${lists} lists in ${took} ms`);
  assert.deepEqual(bench.violations(['one']), []);
});

test('fault:F14 a planted secret in a stderr flood is in no log, status, metric or answer; the log is bounded', async (t) => {
  const bench = new FaultBench(t);
  const secret = 'tl-canary-5e0f2a9c41d7';
  await bench.start(
    { one: bench.stdio('one', 'stateful', { env: { API_TOKEN: secret } }) },
    { log: { level: 'debug' } },
  );
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const said = await client.call('one__environment', { text: 'API_TOKEN' });
  assert.match(said.reason, new RegExp(secret), 'the server has the secret, and may return it to its caller');
  const text = `\u001b[2J\u001b]0;title\u0007 Authorization: Bearer ${secret} ${'y'.repeat(300)}`;
  assert.equal((await client.call('one__complain', { text, times: 20_000 })).ending, 'RESULT');
  assert.equal((await client.call('one__crash_after')).ending, 'UNKNOWN');
  const status = await bench.status('one');
  assert.equal(executed(bench.ledger('one'), said.call), 1);
  const metrics = await (await fetch(new URL('/metrics', bench.gateway.controlUrl), { headers: token(bench) })).text();
  assert.match(metrics, /trunkline_/);
  const log = bench.gateway.stderr;
  for (const [name, shown] of Object.entries({ log, status: JSON.stringify(status), metrics })) {
    assert.doesNotMatch(shown, new RegExp(secret), name);
  }
  assert.ok(log.includes('Authorization'), 'no part of the flood was logged');
  assert.ok(!log.includes('\u001b') && !status.stderrTail.includes('\u001b'));
  assert.ok(log.length < 200_000, `${log.length} characters of log`);
});

function token(bench: FaultBench): Record<string, string> {
  return { authorization: `Bearer ${readFileSync(`${bench.gateway.folder}/data/control.token`, 'utf8').trim()}` };
}

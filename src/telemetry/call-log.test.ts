import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { client } from '../../test/support/gateway-bench.ts';
import { callFilter } from '../model/call-filter.ts';
import { CallLog, type EndedCall } from './call-log.ts';
import { Logger } from './logger.ts';

const CALL: EndedCall = {
  request: 'r1',
  startedAt: Date.UTC(2026, 10, 27),
  ms: 12.345,
  waitedMs: 0.5,
  method: 'tools/call',
  endpoint: '/mcp',
  client: client('stateful', { info: '{"name":"codex","version":"0.169.0"}' }),
  server: 'github',
  name: 'create_issue',
  outcome: 'RESULT',
  error: null,
  reason: null,
  requestBytes: 100,
  answerBytes: 2_000,
  servedBy: null,
  tries: 1,
  attempts: null,
  trace: null,
};

const SECRET = 'sk-live-0123456789abcdefghijklmnop';
const logger = Logger.silent();
logger.addSecret(SECRET);

function log(kept: number, ...calls: Partial<EndedCall>[]): CallLog {
  const made = new CallLog('run', 'a', logger, kept);
  for (const call of calls) made.push({ ...CALL, ...call });
  return made;
}

test('a call is kept with all its facts, and found by its id', () => {
  const calls = log(4, {});
  const [call] = calls.last(1);
  const { startedAt: _, attempts: __, ...facts } = CALL;
  assert.deepEqual(call, {
    ...facts,
    id: 'run-1',
    time: '2026-11-27T00:00:00.000Z',
    ms: 12.35,
    client: 'codex 0.169.0',
    principal: 'anonymous',
    session: call!.session,
    revision: '2025-11-25',
    node: 'a',
  });
  assert.match(call!.session!, /^[0-9a-f]{12}$/);
  assert.deepEqual(calls.get('run-1'), call);
  for (const id of ['run-0', 'run-2', 'other-1', 'run-x', '']) assert.equal(calls.get(id), null, id);
});

test('only the last are kept: a reader that was away learns that calls are missing', () => {
  const calls = log(3, ...['1', '2', '3', '4', '5'].map((request) => ({ request })));
  const names = (from: number, max = 10) => {
    const { calls: found, lost } = calls.after(from, max);
    return [found.map(({ request }) => request).join(''), lost];
  };
  assert.deepEqual(names(0), ['345', true]);
  assert.deepEqual(names(2), ['345', false]);
  assert.deepEqual(names(2, 2), ['34', false]);
  assert.deepEqual(names(5), ['', false]);
  assert.equal(calls.get('run-2'), null);
  assert.equal(calls.get('run-3')?.request, '3');
});

test('texts of clients are bounded and have no control characters', () => {
  const wild = client('stateless', { info: JSON.stringify({ name: 'a\u001b[31m', version: 'v'.repeat(500) }) });
  const [call] = log(2, { client: wild, name: `x\u202e${'y'.repeat(1_000)}`, reason: 'no\u0007' }).last(1);
  assert.ok(call!.client!.startsWith('a\\x1b[31m v') && call!.client!.length < 300);
  assert.ok(call!.name!.startsWith('x\\u202ey') && call!.name!.length < 300);
  assert.equal(call!.reason, 'no\\x07');
  assert.equal(call!.session, null);
  for (const info of [null, '7', '{', '{"name":5}', 'null']) assert.equal(log(1).clientName(info), null, String(info));
});

test('filters take texts, numbers, words and negation; an invalid filter is an error with the reason', () => {
  const calls = log(
    8,
    { request: '1' },
    { request: '2', name: 'delete_issue', error: 'tool_error', ms: 700 },
    { request: '3', server: 'time', name: 'now', ms: 3 },
    { request: '4', outcome: 'NOT_SENT', error: '-32001', reason: 'connection refused', client: client('stateless') },
  );
  const found = (filter: string) =>
    calls
      .last(10, callFilter(filter))
      .map(({ request }) => request)
      .join('');
  for (const [filter, expected] of [
    ['', '1234'],
    ['server:github', '124'],
    ['server:GitHub tool:*_issue', '124'],
    [' server:GitHub\t"create"\n  ms<500 ', '14'],
    ['tool:create_issue', '14'],
    ['tool:create', ''],
    ['tool:*issue*', '124'],
    ['-tool:*issue*', '3'],
    ['status:error', '24'],
    ['error:tool_error', '2'],
    ['outcome:not_sent', '4'],
    ['ms>500', '2'],
    ['ms>=700 ms<=700', '2'],
    ['ms:3', '3'],
    ['bytes<10', ''],
    ['client:codex', '123'],
    ['-client:codex', '4'],
    ['refused', '4'],
    ['reason:"connection ref"', '4'],
    ['node:a principal:anonymous', '1234'],
    [`tool:${'*a'.repeat(100)}`, ''],
  ] as const) {
    assert.equal(found(filter), expected, filter);
  }
  assert.throws(() => callFilter('colour:red'), /there is no key "colour"; the keys are server, tool,/);
  for (const key of ['valueOf', 'constructor', 'hasOwnProperty', 'toString'])
    assert.throws(() => callFilter(`${key}:1`), new RegExp(`there is no key "${key}"`));
  assert.throws(() => callFilter('ms>fast'), /ms is a number: write ms>500, not ms>fast/);
  assert.throws(() => callFilter('server>5'), /server is a text: write server:5/);
  assert.throws(() => callFilter('reason:"open'), /quotation mark/);
  const most = Array(50).fill('-x').join(' ');
  callFilter(most);
  assert.throws(() => callFilter(`${most} x`), /at most 50 conditions/);
});

test('texts of clients are bounded in memory, and a secret in a text is masked before the text is cut', () => {
  const long = 'n'.repeat(1024 * 1024);
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const info = client('stateless', { info: JSON.stringify({ name: long }) });
  const calls = log(200);
  collect();
  const heap = process.memoryUsage().heapUsed;
  for (let i = 0; i < 200; i++) calls.push({ ...CALL, name: `${i}${long}`, reason: `${i}${long}`, client: info });
  collect();
  const [last] = calls.last(1);
  assert.ok(last!.name!.length < 300 && last!.reason!.length < 300);
  assert.equal(last!.client, null);
  assert.ok(process.memoryUsage().heapUsed - heap < 50 * 1024 * 1024, 'the log keeps whole texts');
  for (const before of [0, 230, 240, 250, 400]) {
    const text = `${'x'.repeat(before)}${SECRET}${'y'.repeat(300)}`;
    const [call] = log(2, {
      name: text,
      reason: text,
      client: client('stateless', { info: JSON.stringify({ name: text }) }),
    }).last(1);
    assert.ok(!JSON.stringify(call).includes(SECRET.slice(0, 12)), `${before}`);
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import type { CallRecord } from '../../model/call-record.ts';
import { displayWidth } from '../screen/display-width.ts';
import { callLine } from './call-line.ts';
import { topRows } from './top-rows.ts';

const CALL = {
  id: '5d9c14e2-118',
  time: '2026-11-28T00:36:26.123Z',
  ms: 12.4,
  method: 'tools/call',
  client: 'claude-code 2.0.14',
  principal: 'anonymous',
  server: 'github',
  name: 'create_issue',
  outcome: 'RESULT',
  error: null,
  reason: null,
  node: null,
  servedBy: null,
} as CallRecord;

function line(call: Partial<CallRecord>, columns?: number): string {
  return stripVTControlCharacters(callLine({ ...CALL, ...call }, columns));
}

test('in fewer columns a call loses the reason first, then the caller, then the id, then the time', () => {
  const call = { outcome: 'NOT_SENT', error: '-32603', reason: 'the process\nended' } as const;
  const began = '00:36:26.123    12 ms NOT_SENT    ';
  assert.deepEqual(
    [undefined, 110, 100, 80, 62, 50].map((columns) => line(call, columns)),
    [
      `${began}github.create_issue claude-code 2.0.14 (anonymous)  5d9c14e2-118  the process ended`,
      `${began}github.create_issue claude-code 2.0.14 (anonymous)  5d9c14e2-118  the proce…`,
      `${began}github.create_issue claude-code 2.0.14 (anonymous)  5d9c14e2-118`,
      `${began}github.create_issue claude-code…  5d9c14e2-118`,
      `${began}github.create_issue claude-…`,
      '   12 ms NOT_SENT    github.create_issue claude-c…',
    ],
  );
});

test('a call is never wider than its columns, and its id is whole or absent', () => {
  for (const call of [
    {},
    { name: 'a'.repeat(120), reason: 'b'.repeat(200) },
    { name: '議題を作成する'.repeat(4), client: '日本語のクライアント 1', node: 'alpha', servedBy: 'beta' },
    { server: null, name: null, method: 'initialize', client: null },
  ]) {
    for (let columns = 22; columns < 260; columns++) {
      const text = line(call, columns);
      assert.ok(displayWidth(text) <= columns, `${columns}: ${text}`);
      assert.ok(/ {2}5d9c14e2-118( {2}b+…?)?$/.test(text) || !text.includes(' 5'), `${columns}: ${text}`);
    }
    assert.match(line(call, 80), / 5d9c14e2-118$/);
  }
});

function rows(name: string, columns: number): readonly string[] {
  const rate = { server: name, calls: 12, errors: 3, p50: 1.5, p95: 12_345, p99: 12_345, inFlight: 7 };
  const node = { topic: 'stats', node: null, calls: 12, sessions: 2, servers: [rate] } as const;
  const facts = {
    nodes: [node],
    states: new Map([
      [name, 'running'],
      ['fs', 'auth_required'],
    ]),
    totals: new Map([[name, 4_321]]),
    recent: [CALL],
  };
  return topRows(facts, columns, 30).map(stripVTControlCharacters);
}

test('the table has whole columns: in a narrow window the least important are left out', () => {
  const shown = (name: string, columns: number): string[] => {
    const table = rows(name, columns).slice(1, 3);
    for (const row of table) assert.ok(displayWidth(row) <= columns, row);
    return table.map((row) => row.replaceAll(/ +/g, ' '));
  };
  const all = ['SERVER STATE CALLS/S ERR/S P50 P95 RUNNING SEEN', 'github running 12 3 1.5 ms 12.3 s 7 4321'];
  for (const columns of [80, 110, 200]) assert.deepEqual(shown('github', columns), all);
  const long = 'a-server-with-a-long-name';
  assert.deepEqual(shown(long, 80), ['SERVER STATE CALLS/S ERR/S P95 RUNNING', `${long} running 12 3 12.3 s 7`]);
  assert.deepEqual(
    shown(long, 110),
    all.map((row) => row.replace('github', long)),
  );
  assert.deepEqual(shown(long, 40), ['SERVER CALLS/S ERR/S P95', `${long.slice(0, 13)}… 12 3 12.3 s`]);
  assert.deepEqual(
    shown('知識ベース', 80),
    all.map((row) => row.replace('github', '知識ベース')),
  );
  for (const columns of [1, 8, 20, 30]) assert.ok(shown(long, columns)[1]!.startsWith(columns < 3 ? '…' : 'a'));
});

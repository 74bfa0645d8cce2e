import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallAttempts } from './call-attempts.ts';

const END = { node: 'b', outcome: 'RESULT', reason: null } as const;

function failing(message: string): { readonly outcome: 'NOT_SENT'; readonly message: string } {
  return { outcome: 'NOT_SENT', message };
}

test('the last attempts are kept and all are counted; recorded times are relative to the arrival of the call', () => {
  const attempts = new CallAttempts();
  for (let i = 0; i < 20; i++) {
    attempts.add(100, 110 + i * 100, failing(`${i}`), { label: `c${i}`, pid: 1_000 + i });
    attempts.begins(150 + i * 100);
  }
  const all = attempts.upTo(90, 2_000, END);
  assert.deepEqual([attempts.count, all.length], [21, 7]);
  const failed = { node: null, connection: 'c14', pid: 1_014, outcome: 'NOT_SENT', reason: '14', atMs: 1_360, ms: 60 };
  assert.deepEqual(all[0], failed);
  assert.deepEqual(all.at(-1), { ...END, connection: null, pid: null, atMs: 1_960, ms: 40 });
});

test('a continued search for a node is one attempt; if no attempt follows a failure, the end adds none', () => {
  const attempts = new CallAttempts();
  for (const at of [0, 100, 200]) {
    attempts.add(0, at, failing('no node has it'), null);
    attempts.begins(at + 50);
  }
  attempts.add(0, 300, failing('it is leaving'), null, 'b');
  assert.equal(attempts.count, 2);
  assert.deepEqual(
    attempts.upTo(0, 350, END).map(({ node, atMs, ms, reason }) => [node, atMs, ms, reason]),
    [
      [null, 0, 200, 'no node has it'],
      ['b', 250, 50, 'it is leaving'],
    ],
  );
});

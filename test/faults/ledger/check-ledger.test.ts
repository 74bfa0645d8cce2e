import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkLedger, type Evidence } from './check-ledger.ts';
import type { Attempt, Ending } from './history.ts';
import type { LedgerEntry } from './ledger-entry.ts';

function attempt(call: string, ending: Ending | null, changes: Partial<Attempt> = {}): Attempt {
  const answered = ending !== null && ending !== 'LOST';
  return {
    client: 'one',
    call,
    tool: 'unsafe',
    rpcId: `"${call}"`,
    startedAt: 1_000,
    ending,
    endedAt: ending === null ? null : 1_010,
    answeredId: answered ? `"${call}"` : null,
    answeredCall: ending === 'RESULT' ? call : null,
    abandoned: false,
    reason: '',
    ...changes,
  };
}

const ran = (call: string): LedgerEntry => ({ event: 'executed', call, tool: 'unsafe', pid: 1 });

function rules(attempts: readonly Attempt[], ledger: readonly LedgerEntry[], more: Partial<Evidence> = {}): string {
  const evidence = { attempts, ledger, repeatable: new Set(['safe']), deadlineMs: 1_000, ...more };
  return checkLedger(evidence)
    .map(({ rule }) => rule)
    .join('');
}

test('an honest run has no violations', () => {
  const attempts = [
    attempt('a', 'RESULT'),
    attempt('b', 'NOT_SENT'),
    attempt('c', 'UNKNOWN'),
    attempt('d', 'UNKNOWN'),
    attempt('e', 'REFUSED'),
    attempt('f', 'LOST'),
    attempt('g', 'NOT_SENT'),
    attempt('g', 'RESULT'),
    attempt('h', null, { abandoned: true }),
  ];
  assert.equal(rules(attempts, [ran('a'), ran('c'), ran('f'), ran('g'), ran('h')]), '');
});

test('(a) a result that was never executed, and an execution without a request', () => {
  assert.equal(rules([attempt('a', 'RESULT')], []), 'a');
  assert.equal(rules([], [ran('a')]), 'a');
});

test('(b) NOT_SENT or REFUSED, but executed', () => {
  assert.equal(rules([attempt('a', 'NOT_SENT')], [ran('a')]), 'b');
  assert.equal(rules([attempt('a', 'REFUSED')], [ran('a')]), 'b');
});

test('(c) a call that may not repeat ran twice; others may', () => {
  assert.equal(rules([attempt('a', 'RESULT')], [ran('a'), ran('a')]), 'c');
  assert.equal(rules([attempt('a', 'UNKNOWN')], [ran('a'), ran('a')]), 'c');
  assert.equal(rules([attempt('a', 'NOT_SENT'), attempt('a', 'RESULT')], [ran('a'), ran('a')]), 'c');
  assert.equal(rules([attempt('a', 'RESULT', { tool: 'safe' })], [ran('a'), ran('a')]), '');
});

test('(d) an answer with a foreign id, or the result of another call', () => {
  assert.equal(rules([attempt('a', 'RESULT', { answeredId: '"b"' })], [ran('a')]), 'd');
  assert.equal(rules([attempt('a', 'RESULT', { answeredCall: 'b' })], [ran('a')]), 'd');
  const rounded = { rpcId: '9007199254740993', answeredId: '9007199254740992' };
  assert.equal(rules([attempt('a', 'RESULT', rounded)], [ran('a')]), 'd');
});

test('(e) a call that never ended, and one that ended too late', () => {
  assert.equal(rules([attempt('a', null)], []), 'e');
  assert.equal(rules([attempt('a', 'UNKNOWN', { endedAt: 3_001 })], []), 'e');
  assert.equal(rules([attempt('a', 'UNKNOWN', { endedAt: 2_999 })], []), '');
});

test('(f) an acknowledged configuration write that is missing', () => {
  assert.equal(rules([], [], { acknowledged: ['one', 'two'], present: ['two', 'three'] }), 'f');
  assert.equal(rules([], [], { acknowledged: ['two'], present: ['two', 'three'] }), '');
});

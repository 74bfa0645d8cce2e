import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SessionRecord } from '../../model/ports.ts';
import { recordOf, SessionKinds } from './session-facts.ts';

const RECORD: SessionRecord = {
  id: 'one',
  principal: 'p',
  endpoint: '/mcp',
  revision: '2025-11-25',
  capabilities: '{}',
  info: null,
  initialized: true,
  logLevel: null,
  createdAt: 1_700_000_000_000,
  lastSeenAt: 1_700_000_060_000,
};

test('a session record returns unchanged, whatever a node of a later version adds to it', () => {
  const later = { ...RECORD, colour: 'blue' };
  assert.deepEqual(recordOf('one', new SessionKinds().factsOf(later)), later);
  const sooner = { ...RECORD, lastSeenAt: RECORD.createdAt - 5 };
  assert.deepEqual(recordOf('one', new SessionKinds().factsOf(sooner)), sooner);
});

test('equal parts of many sessions are kept once, and long parts are not shared', () => {
  const kinds = new SessionKinds();
  const facts = kinds.factsOf(RECORD);
  assert.equal(kinds.factsOf({ ...RECORD, id: 'two', createdAt: 1, lastSeenAt: 2 }).kind, facts.kind);
  assert.notEqual(kinds.factsOf({ ...RECORD, logLevel: 'error' }).kind, facts.kind);
  const long = { ...RECORD, info: 'x'.repeat(9_000) };
  assert.notEqual(kinds.factsOf(long).kind, kinds.factsOf(long).kind);
  for (let at = 0; at < 5_000; at++) kinds.factsOf({ ...RECORD, principal: String(at) });
  assert.deepEqual(recordOf('one', kinds.factsOf(RECORD)), RECORD);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Attempt } from '../faults/ledger/history.ts';
import { forgottenSessions } from './forgotten-sessions.ts';
import type { Struck } from './nemesis.ts';

function refused(opened: NonNullable<Attempt['opened']>): Attempt {
  return {
    client: 'c1',
    call: 'c1-1',
    tool: 'unsafe',
    rpcId: '1',
    startedAt: 20_000,
    ending: 'REFUSED',
    endedAt: 20_900,
    answeredId: null,
    answeredCall: null,
    abandoned: false,
    reason: 'Session not found',
    via: 'n2',
    opened,
  };
}

test('a session that a node does not know was lost, unless the node that opened it could not publish it', () => {
  const cut: Struck = { kind: 'cut', node: 'n1', from: 15_000, to: 21_000 };
  assert.deepEqual(forgottenSessions([refused({ via: 'n1', at: 16_000 })], [cut]), []);
  assert.equal(forgottenSessions([refused({ via: 'n1', at: 10_000 })], [cut]).length, 1);
  assert.equal(forgottenSessions([refused({ via: 'n3', at: 16_000 })], [cut]).length, 1);
  assert.equal(forgottenSessions([refused({ via: 'n1', at: 16_000 })], [{ ...cut, to: 16_500 }]).length, 1);
  assert.equal(forgottenSessions([refused({ via: 'n1', at: 16_000 })], []).length, 1);
  const late = { ...refused({ via: 'n1', at: 16_000 }), reason: "this node has not read the cluster's sessions yet" };
  assert.equal(forgottenSessions([late], []).length, 1);
  assert.deepEqual(forgottenSessions([late], [cut]), []);
  const outage: Struck = { kind: 'nats_kill', node: null, from: 15_000, to: 18_000 };
  assert.deepEqual(forgottenSessions([refused({ via: 'n3', at: 16_000 })], [outage]), []);
});

test('a session opened during an outage does not count as lost if its node is stopped before the outage ends', () => {
  const outage: Struck = { kind: 'nats_kill', node: null, from: 9_500, to: 12_000 };
  const stop: Struck = { kind: 'stop', node: 'n3', from: 11_500, to: 22_000 };
  const opened = refused({ via: 'n3', at: 10_000 });
  assert.deepEqual(forgottenSessions([opened], [outage, stop]), []);
  assert.equal(forgottenSessions([opened], [outage, { ...stop, node: 'n1' }]).length, 1);
  assert.equal(forgottenSessions([opened], [outage, { ...stop, to: 16_000 }]).length, 1);
  assert.equal(forgottenSessions([opened], [stop]).length, 1);
});

test('a node that started during an outage may report a session as not yet known, and not as missing', () => {
  const outage: Struck = { kind: 'nats_forgets', node: null, from: 17_500, to: 20_500 };
  const old = refused({ via: 'n3', at: 5_000 });
  const late = { ...old, reason: "this node has not read the cluster's sessions yet" };
  assert.deepEqual(forgottenSessions([late], [outage]), []);
  assert.equal(forgottenSessions([old], [outage]).length, 1);
  assert.equal(forgottenSessions([late], [{ ...outage, from: 10_000, to: 15_000 }]).length, 1);
  assert.equal(forgottenSessions([late], [{ ...outage, kind: 'cut', node: 'n2' }]).length, 1);
});

test('a session opened during an outage is known to no other node when its node is killed before it could publish it', () => {
  const outage: Struck = { kind: 'nats_kill', node: null, from: 9_500, to: 12_000 };
  const kill: Struck = { kind: 'kill', node: 'n3', from: 10_500, to: 13_000 };
  const gone = refused({ via: 'n3', at: 10_000 });
  assert.deepEqual(forgottenSessions([gone], [outage, kill]), []);
  assert.equal(forgottenSessions([gone], [outage]).length, 1);
  assert.equal(forgottenSessions([gone], [kill]).length, 1);
  assert.equal(forgottenSessions([gone], [outage, { ...kill, node: 'n1' }]).length, 1);
  assert.equal(forgottenSessions([gone], [outage, { ...kill, from: 16_000 }]).length, 1);
  assert.equal(forgottenSessions([refused({ via: 'n3', at: 13_000 })], [outage, kill]).length, 1);
});

test('a node that is cut off as soon as NATS is back has published nothing yet; one that had time has', () => {
  const outage: Struck = { kind: 'nats_kill', node: null, from: 9_500, to: 12_000 };
  const cut: Struck = { kind: 'cut', node: 'n3', from: 12_400, to: 19_000 };
  const opened = refused({ via: 'n3', at: 10_000 });
  assert.deepEqual(forgottenSessions([opened], [cut, outage]), []);
  assert.equal(forgottenSessions([opened], [outage]).length, 1);
  assert.equal(forgottenSessions([opened], [cut]).length, 1);
  assert.equal(forgottenSessions([opened], [outage, { ...cut, node: 'n1' }]).length, 1);
  assert.equal(forgottenSessions([opened], [outage, { ...cut, from: 15_100 }]).length, 1);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { OutlierEjection } from './outlier-ejection.ts';

const failed = (status: number): GatewayError =>
  new GatewayError('UNKNOWN', 'no', { server: 'a', cause: { status, challenge: null } });

function bench() {
  const clock = new FakeClock();
  /** Calls alternate between two callers; those below 0 are of a third. */
  const ejection = new OutlierEjection<number>(clock, (call) => (call < 0 ? 'one' : `${call % 2}`));
  let calls = 0;
  /** Sends a call that fails with this status, 0 for one that is answered; false where it is not sent. */
  const call = (status: number): boolean => {
    const id = ++calls;
    if (ejection.refusal(id, 'a') !== null) return false;
    if (status === 0) ejection.answered();
    else ejection.failed(id, failed(status));
    ejection.ended(id);
    return true;
  };
  return { clock, ejection, call };
}

test('fault:F23 after five 5xx answers in a row no calls are sent until a trial call succeeds', async () => {
  const { clock, ejection, call } = bench();
  for (let i = 0; i < 4; i++) assert.ok(call(503));
  assert.ok(call(0), 'one good answer restarts the count');
  for (let i = 0; i < 5; i++) assert.ok(call(500));
  const refusal = ejection.refusal(99, 'a');
  assert.deepEqual([refusal?.code, refusal?.data.retryable, refusal?.data.retryAfterMs], ['NOT_SENT', true, 1_000]);
  await clock.advance(999);
  assert.ok(!call(0));
  await clock.advance(1);
  assert.ok(call(0));
  for (let i = 0; i < 4; i++) assert.ok(call(502));
  assert.ok(call(0));
});

test('fault:F23 one call at a time is a trial; each failure doubles the wait, up to 30 s', async () => {
  const { clock, ejection, call } = bench();
  for (let i = 0; i < 5; i++) call(500);
  for (const waitMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    await clock.advance(waitMs - 1);
    assert.ok(!call(500), `${waitMs}`);
    await clock.advance(1);
    assert.ok(call(500), `${waitMs}`);
  }
  await clock.advance(30_000);
  assert.equal(ejection.refusal(1_000, 'a'), null);
  assert.equal(ejection.refusal(1_000, 'a'), null, 'its own second attempt');
  assert.notEqual(ejection.refusal(1_001, 'a'), null, 'the others wait during the trial call');
  ejection.ended(1_000);
  assert.equal(ejection.refusal(1_002, 'a'), null, 'it ended without an answer: the next may try');
});

test('fault:F23 only 5xx answers eject a server: lost connections, 4xx and deadlines do not', () => {
  const { ejection, call } = bench();
  for (let i = 0; i < 20; i++) assert.ok(call(429));
  for (let i = 0; i < 20; i++) ejection.failed(i, new GatewayError('UNKNOWN', 'lost', { server: 'a' }));
  for (let i = 0; i < 20; i++) ejection.failed(i, new GatewayError('TIMEOUT', 'late', { server: 'a' }));
  assert.ok(call(0));
});

test('fault:F23 failures of one caller hold back only that caller; the others once calls fail for them too', async () => {
  const { clock, ejection, call } = bench();
  const poison = (id: number): boolean => {
    if (ejection.refusal(id, 'a') !== null) return false;
    ejection.failed(id, failed(500));
    ejection.ended(id);
    return true;
  };
  for (let id = -5; id < 0; id++) assert.ok(poison(id));
  assert.ok(!poison(-6));
  assert.ok(call(0), 'the server answers another caller, and so all may call');
  for (let id = -15; id < -10; id++) assert.ok(poison(id));
  await clock.advance(1_000);
  assert.ok(poison(-16));
  assert.ok(!poison(-17));
  assert.ok(call(500), 'this caller had not failed yet');
  assert.ok(!call(0));
  assert.ok(!call(0));
  await clock.advance(2_000);
  assert.ok(call(0));
  assert.ok(poison(-18));
});

test('fault:F23 a subscription or a slow trial call keeps the others from trying for at most 5 s', async () => {
  const { clock, ejection, call } = bench();
  for (let i = 0; i < 5; i++) call(500);
  await clock.advance(1_000);
  assert.equal(ejection.refusal(1_000, 'a'), null);
  await clock.advance(4_999);
  assert.ok(!call(0));
  await clock.advance(1);
  assert.ok(call(0));
  ejection.ended(1_000);
  assert.ok(call(0));
});

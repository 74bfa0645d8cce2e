import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { result } from '../../protocol/compose.ts';
import { PendingAsks } from './pending-asks.ts';

const ASK_MS = 15 * 60_000;

test('an input request without a call stays open for 15 minutes', async () => {
  const clock = new FakeClock();
  const asks = new PendingAsks('p', clock);
  const call = {};
  const ends: string[] = [];
  const opened = (name: string, owner: Parameters<PendingAsks['open']>[0]) => {
    const { id, answer } = asks.open(owner, { server: '', id: `"${name}"`, token: '' }, () =>
      ends.push(`${name} called off`),
    );
    answer.then(
      () => ends.push(`${name} answered`),
      (error: GatewayError) => ends.push(`${name} ${error.code}`),
    );
    return id;
  };
  opened('nobody’s', null);
  opened('likely', { exchange: call, likely: true });
  opened('the call’s', { exchange: {}, likely: false });
  const answered = opened('quick', null);
  asks.take(result(answered, '{}', 'stateful'));
  await clock.advance(60_000);
  asks.release(call);
  await clock.advance(ASK_MS - 60_000);
  assert.deepEqual(ends, ['quick answered', 'nobody’s called off', 'nobody’s TIMEOUT']);
  await clock.advance(60_000);
  assert.deepEqual(ends.slice(3), ['likely called off', 'likely TIMEOUT']);
  assert.equal(asks.size, 1, 'a call has its own deadline');
  opened('last', null);
  asks.abandonAll(new GatewayError('CANCELLED', 'the session has ended'));
  await settled();
  assert.deepEqual([asks.size, clock.pending], [0, 0]);
});

test('if two servers use the same id, a cancellation affects only the server that sent it', async () => {
  const asks = new PendingAsks('p', new FakeClock());
  const [a, b] = ['a', 'b'].map((server) => asks.open(null, { server, id: '1', token: '' }, () => {}));
  assert.equal(asks.cancel(null, { server: 'b', id: '1' }), b!.id);
  await assert.rejects(b!.answer, { code: 'CANCELLED' });
  assert.equal(asks.cancel(null, { server: 'b', id: '1' }), null);
  asks.take(result(a!.id, '{}', 'stateful'));
  assert.equal((await a!.answer).kind, 'result');
});

test('check:C9 no id is issued twice, even after a session is stored and loaded again', () => {
  const ids = [1, 2].map(() => {
    const asks = new PendingAsks('p', new FakeClock());
    return asks.open(null, { server: 'a', id: '1', token: '' }, () => {}).id;
  });
  assert.notEqual(ids[0], ids[1]);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Claims } from './claims.ts';
import { Claim } from './own-claims.ts';
import { OwnedCalls } from './owned-calls.ts';

test('the oldest call of a claim is found after any additions and removals; streams do not count', async () => {
  const clock = new FakeClock();
  const owned = new OwnedCalls({ holds: () => true } as unknown as Claims, clock);
  const [one, other] = ['one', 'other'].map(
    (key) => new Claim({ server: 'web', key, fresh: true, forgotten: 0, client: null, since: 1 }, '17'),
  ) as [Claim, Claim];
  const ends = new Map<number, (outcome: Outcome) => void>();
  const begin = (claim: Claim, stays = false): void => {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    ends.set(clock.now(), resolve);
    void owned.run(claim, promise, stays);
  };
  const begunAt = (claim: Claim): number | undefined => owned.oldest().get(claim);
  const start = clock.now();
  begin(other, true);
  for (let call = 1; call <= 40; call++) {
    await clock.advance(100);
    begin(one);
    // Three calls at a time, so that the slots of ended calls are used again.
    ends.get(start + 100 * (call - 3))?.(failure(new GatewayError('NOT_SENT', 'it was not begun')));
    await settled();
    assert.equal(begunAt(one), start + 100 * Math.max(1, call - 2), `after ${call} calls`);
  }
  assert.equal(begunAt(other), undefined);
  owned.fence((claim) => claim === one);
  assert.equal(owned.oldest().size, 0);
});

test('the calls of a lost claim end at once, their later answers are ignored, and other calls go on', async () => {
  const owned = new OwnedCalls({ holds: () => true } as unknown as Claims, new FakeClock());
  const [lost, kept] = ['lost', 'kept'].map(
    (key) => new Claim({ server: 'web', key, fresh: true, forgotten: 0, client: null, since: 1 }, '17'),
  ) as [Claim, Claim];
  const calls = [lost, kept, lost, lost, kept, lost].map((claim) => {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const ended: string[] = [];
    void owned.run(claim, promise).then((outcome) => ended.push(outcome.kind));
    return { claim, ended, answer: () => resolve({ kind: 'answer' } as unknown as Outcome) };
  });
  calls[1]!.answer();
  await settled();
  owned.fence((claim) => claim === lost);
  await settled();
  assert.deepEqual([...owned.used()], [kept]);
  for (const { answer } of calls) answer();
  await settled();
  for (const { claim, ended } of calls) assert.deepEqual(ended, [claim === lost ? 'failure' : 'answer']);
  assert.equal(owned.used().size, 0);
});

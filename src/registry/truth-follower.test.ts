import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { SqliteTruth } from '../store/truth/sqlite-truth.ts';
import { TruthError } from '../store/truth/truth.ts';
import { Logger } from '../telemetry/logger.ts';
import { TruthFollower } from './truth-follower.ts';

test('what another node wrote is read within 2 s, once, and again where that failed', async () => {
  const clock = new FakeClock();
  const logger = Logger.silent();
  const truth = new SqliteTruth({ path: ':memory:', clock, logger });
  let read = 0;
  let fails = false;
  const changed = async (): Promise<void> => {
    if (fails) throw new TruthError('unavailable', 'away');
    read++;
  };
  const follower = new TruthFollower({ truth, clock, logger, changed });
  follower.start();
  await clock.advance(2_000);
  assert.equal(read, 1, 'what was written before it began to look');
  await clock.advance(6_000);
  assert.equal(read, 1);
  fails = true;
  await truth.apply([{ kind: 'put', collection: 'c', key: 'k', value: '1' }]);
  await clock.advance(2_000);
  assert.equal(follower.problem, 'away');
  fails = false;
  await clock.advance(2_000);
  assert.deepEqual([read, follower.problem], [2, null]);
  await truth.close();
  await clock.advance(2_000);
  assert.match(follower.problem ?? '', /closed/);
  follower.close();
});

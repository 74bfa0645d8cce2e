import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { StoreError } from '../store/run-time-store/run-time-store.ts';
import { SqliteRunTimeStore } from '../store/run-time-store/sqlite-run-time-store.ts';
import { Logger } from '../telemetry/logger.ts';
import { StoreFollower } from './store-follower.ts';

test('changes of another node are read within 2 s, once, and again after a failure', async () => {
  const clock = new FakeClock();
  const logger = Logger.silent();
  const runTimeStore = new SqliteRunTimeStore({ path: ':memory:', clock, logger });
  let read = 0;
  let fails = false;
  const onChange = async (): Promise<void> => {
    if (fails) throw new StoreError('unavailable', 'away');
    read++;
  };
  const follower = new StoreFollower({ runTimeStore, clock, logger, onChange });
  follower.start();
  await clock.advance(2_000);
  assert.equal(read, 1, 'the changes from before the follower started');
  await clock.advance(6_000);
  assert.equal(read, 1);
  fails = true;
  await runTimeStore.apply([{ kind: 'put', collection: 'c', key: 'k', value: '1' }]);
  await clock.advance(2_000);
  assert.equal(follower.problem, 'away');
  fails = false;
  await clock.advance(2_000);
  assert.deepEqual([read, follower.problem], [2, null]);
  await runTimeStore.close();
  await clock.advance(2_000);
  assert.match(follower.problem ?? '', /closed/);
  follower.close();
});

test('S0.17 check:H6 a hint causes a read at once, several hints one read, and a hint during a read one more read after it', async () => {
  const clock = new FakeClock();
  const logger = Logger.silent();
  const runTimeStore = new SqliteRunTimeStore({ path: ':memory:', clock, logger });
  const revisions: number[] = [];
  let duringLook = (): void => {};
  const onChange = async (): Promise<void> => {
    duringLook();
    revisions.push((await runTimeStore.read([])).revision);
  };
  const follower = new StoreFollower({ runTimeStore, clock, logger, onChange });
  const write = (key: string) => runTimeStore.apply([{ kind: 'put', collection: 'c', key, value: '1' }]);
  follower.start();
  await write('a');
  for (let i = 0; i < 1_000; i++) follower.hint();
  await clock.advance(100);
  assert.deepEqual(revisions, [1]);
  await write('b');
  duringLook = () => {
    duringLook = () => {};
    void write('c');
    follower.hint();
  };
  follower.hint();
  await clock.advance(100);
  await clock.advance(100);
  assert.equal(revisions.at(-1), 3);
  // Late and repeated hints change nothing, and the check every two seconds goes on.
  follower.hint();
  await clock.advance(100);
  assert.equal(revisions.at(-1), 3);
  await write('d');
  await clock.advance(2_000);
  assert.equal(revisions.at(-1), 4);
  follower.close();
  await runTimeStore.close();
});

test('slow reads take at most a twentieth of the time, but no read waits for longer than two seconds', async () => {
  const clock = new FakeClock();
  const logger = Logger.silent();
  const runTimeStore = new SqliteRunTimeStore({ path: ':memory:', clock, logger });
  let takesMs = 50;
  let read = 0;
  const onChange = async (): Promise<void> => {
    read++;
    clock.skip(takesMs);
  };
  const follower = new StoreFollower({ runTimeStore, clock, logger, onChange });
  const changedElsewhere = async (): Promise<void> => {
    await runTimeStore.apply([{ kind: 'put', collection: 'c', key: 'k', value: String(read) }]);
    follower.hint();
  };
  follower.start();
  await changedElsewhere();
  await clock.advance(100);
  assert.equal(read, 1);
  await changedElsewhere();
  await clock.advance(999);
  assert.equal(read, 1);
  takesMs = 5_000;
  await clock.advance(1);
  assert.equal(read, 2);
  await changedElsewhere();
  await clock.advance(1_999);
  assert.equal(read, 2);
  await clock.advance(1);
  assert.equal(read, 3);
  follower.close();
  await runTimeStore.close();
});

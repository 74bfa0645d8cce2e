import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { FileChecks } from './file-checks.ts';

/** Checks where the files below `/dead` give no answer until `answer` is called. */
function setUp() {
  const clock = new FakeClock();
  const looked: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const checks = new FileChecks(clock, async (file) => {
    looked.push(file);
    if (file.startsWith('/dead')) await promise;
    else throw new Error('there is no such file');
  });
  const responds = async (file: string): Promise<boolean> => {
    const answered = checks.responds(file);
    for (let second = 0; second < 4; second++) await clock.advance(1_000);
    return answered;
  };
  return { checks, clock, looked, responds, answer: resolve };
}

test('check:A8 a folder that does not answer is not checked again until it answers, and delays no other', async () => {
  const { checks, clock, looked, responds, answer } = setUp();
  assert.equal(await responds('/dead/a'), false);
  assert.deepEqual([await checks.responds('/dead/b'), await checks.responds('/good/a')], [false, true]);
  assert.deepEqual(looked, ['/dead/a', '/good/a']);
  answer();
  await clock.advance(0);
  assert.equal(await checks.responds('/dead/b'), true);
  assert.equal(clock.pending, 0, 'no timer is left');
});

test('check:A8 while two folders give no answer no other is checked, so that the pool has threads left', async () => {
  const { checks, clock, looked, responds, answer } = setUp();
  for (const file of ['/dead/1/a', '/dead/2/a', '/dead/3/a']) assert.equal(await responds(file), false);
  assert.equal(await checks.responds('/good/a'), false);
  assert.deepEqual(looked, ['/dead/1/a', '/dead/2/a']);
  answer();
  await clock.advance(0);
  assert.equal(await checks.responds('/good/a'), true);
});

test('a file of this machine and one that is missing respond', async () => {
  const checks = new FileChecks(new FakeClock());
  for (const file of [import.meta.filename, '/no/such/file']) assert.equal(await checks.responds(file), true);
});

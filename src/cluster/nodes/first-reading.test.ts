import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { FirstReading } from './first-reading.ts';

function reading() {
  const clock = new FakeClock();
  const advertisements = { complete: false, wholeReadings: 0 };
  const catalogs = { idle: true, readings: 0 };
  const rebuilding = {
    due: false,
    runs: 0,
    run() {
      rebuilding.runs++;
      rebuilding.due = false;
    },
  };
  const first = new FirstReading(clock, advertisements, catalogs);
  first.begin(rebuilding);
  return { clock, advertisements, catalogs, rebuilding, first };
}

test('a node is ready when it has read what the others advertise and list, and its routing table has that', async () => {
  const { clock, advertisements, catalogs, rebuilding, first } = reading();
  advertisements.complete = true;
  assert.match(first.lack!, /reads what the other nodes have/, 'it has not met any');
  await clock.advance(250);
  rebuilding.due = true;
  assert.notEqual(first.lack, null);
  rebuilding.due = false;
  catalogs.idle = false;
  assert.notEqual(first.lack, null);
  catalogs.idle = true;
  assert.equal(first.lack, null);
  advertisements.complete = false;
  assert.equal(first.lack, null, 'once is enough');
  first.close();
  assert.equal(clock.pending, 0);
});

test('a node waits for what it reads while more of it comes, 5 s for nothing, and 30 s at most', async () => {
  const silent = reading();
  await silent.clock.advance(4_900);
  assert.notEqual(silent.first.lack, null);
  await silent.clock.advance(200);
  assert.equal(silent.first.lack, null);
  assert.equal(silent.clock.pending, 0);
  const slow = reading();
  for (let s = 1; s <= 12; s++) {
    await slow.clock.advance(1_000);
    if (s < 8) slow.advertisements.wholeReadings++;
    if (s === 8) slow.catalogs.readings++;
    assert.notEqual(slow.first.lack, null, `after ${s} s`);
  }
  await slow.clock.advance(3_100);
  assert.equal(slow.first.lack, null);
  const endless = reading();
  for (let s = 1; s < 30; s++) {
    await endless.clock.advance(1_000);
    endless.advertisements.wholeReadings++;
    assert.notEqual(endless.first.lack, null, `after ${s} s`);
  }
  await endless.clock.advance(1_100);
  assert.equal(endless.first.lack, null);
});

test('the routing table is built once, without a pause, when all nodes have been read', async () => {
  const { clock, advertisements, catalogs, rebuilding, first } = reading();
  let over = false;
  void first.over().then(() => {
    over = true;
  });
  rebuilding.due = true;
  await clock.advance(400);
  assert.equal(rebuilding.runs, 0);
  advertisements.complete = true;
  catalogs.idle = false;
  await clock.advance(50);
  assert.equal(rebuilding.runs, 1);
  rebuilding.due = true;
  await clock.advance(400);
  assert.deepEqual([rebuilding.runs, over], [1, false], 'what comes later is paced');
  rebuilding.due = false;
  catalogs.idle = true;
  await clock.advance(50);
  assert.ok(over);
  first.close();
  assert.equal(clock.pending, 0);
});

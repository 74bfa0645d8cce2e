import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { InitialSync } from './initial-sync.ts';

function reading() {
  const clock = new FakeClock();
  const advertisements = { complete: false, completeReadings: 0 };
  const catalogs = { idle: true, readings: 0 };
  const updating = {
    pending: false,
    runs: 0,
    run() {
      updating.runs++;
      updating.pending = false;
    },
  };
  const first = new InitialSync(clock, advertisements, catalogs);
  first.begin(updating);
  return { clock, advertisements, catalogs, updating, first };
}

test('a node is ready when its routing table has the advertisements and lists of the other nodes', async () => {
  const { clock, advertisements, catalogs, updating, first } = reading();
  advertisements.complete = true;
  assert.match(first.notReady!, /reads what the other nodes have/, 'the node has met no other node');
  updating.run = () => {};
  updating.pending = true;
  await clock.advance(250);
  assert.notEqual(first.notReady, null);
  updating.pending = false;
  catalogs.idle = false;
  await clock.advance(250);
  assert.notEqual(first.notReady, null);
  catalogs.idle = true;
  await clock.advance(50);
  assert.equal(first.notReady, null);
  advertisements.complete = false;
  await clock.advance(50);
  assert.equal(first.notReady, null, 'the node stays ready');
  assert.equal(clock.pending, 0);
});

test('a node is ready only after it has read all nodes that it meets one after the other', async () => {
  const { clock, advertisements, first } = reading();
  advertisements.complete = true;
  for (let met = 1; met < 5; met++) {
    await clock.advance(150);
    advertisements.completeReadings++;
  }
  await clock.advance(150);
  assert.notEqual(first.notReady, null);
  await clock.advance(100);
  assert.equal(first.notReady, null);
});

test('a node waits while it reads more, at most 5 s without progress and 30 s in all', async () => {
  const silent = reading();
  await silent.clock.advance(4_900);
  assert.notEqual(silent.first.notReady, null);
  await silent.clock.advance(200);
  assert.equal(silent.first.notReady, null);
  assert.equal(silent.clock.pending, 0);
  const slow = reading();
  for (let s = 1; s <= 12; s++) {
    await slow.clock.advance(1_000);
    if (s < 8) slow.advertisements.completeReadings++;
    if (s === 8) slow.catalogs.readings++;
    assert.notEqual(slow.first.notReady, null, `after ${s} s`);
  }
  await slow.clock.advance(1_100);
  assert.equal(slow.first.notReady, null);
  const endless = reading();
  for (let s = 1; s < 30; s++) {
    await endless.clock.advance(1_000);
    endless.advertisements.completeReadings++;
    assert.notEqual(endless.first.notReady, null, `after ${s} s`);
  }
  await endless.clock.advance(1_100);
  assert.equal(endless.first.notReady, null);
});

test('the routing table is updated once, without a pause, when all nodes have been read', async () => {
  const { clock, advertisements, catalogs, updating, first } = reading();
  updating.pending = true;
  await clock.advance(400);
  assert.equal(updating.runs, 0);
  advertisements.complete = true;
  catalogs.idle = false;
  await clock.advance(50);
  assert.equal(updating.runs, 1);
  updating.pending = true;
  await clock.advance(400);
  assert.equal(updating.runs, 1, 'later updates are paced');
  first.close();
  assert.equal(clock.pending, 0);
});

test('a node starts its own servers when it has read the others, after 5 s at the latest, and at once when closed', async () => {
  const startedAfter = async (prepare: (one: ReturnType<typeof reading>) => void): Promise<number> => {
    const one = reading();
    const begun = one.clock.now();
    let at = Number.NaN;
    void one.first.started.then(() => {
      at = one.clock.now() - begun;
    });
    prepare(one);
    for (let i = 0; i < 320; i++) {
      await one.clock.advance(20);
      if (i % 50 === 0) one.advertisements.completeReadings++;
    }
    one.first.close();
    return at;
  };
  assert.ok((await startedAfter((one) => one.first.close())) <= 20);
  assert.equal(await startedAfter(() => {}), 5_000);
  const read = await startedAfter(({ advertisements }) => {
    advertisements.complete = true;
  });
  assert.ok(read >= 200 && read < 300, String(read));
});

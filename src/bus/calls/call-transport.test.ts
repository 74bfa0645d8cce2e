import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { Wire } from '../wire.ts';
import { CallTransport, type TickInfo } from './call-transport.ts';
import type { FrameSender } from './frame-sender.ts';

/** `next`: how long after itself each look wants the next one; without a value, never. */
function looking(...next: number[]): {
  clock: FakeClock;
  transport: CallTransport;
  looks: TickInfo[];
  at: () => number[];
} {
  const clock = new FakeClock(0);
  const looks: TickInfo[] = [];
  const transport = new CallTransport(
    {} as Wire,
    clock,
    {} as FrameSender,
    () => {},
    (look) => {
      looks.push(look);
      return look.now + (next.shift() ?? Number.POSITIVE_INFINITY);
    },
  );
  return { clock, transport, looks, at: () => looks.map(({ now }) => now) };
}

test('the earliest wake time is met to the millisecond, on one timer, which ends when no wake time is left', async () => {
  const { clock, transport, at } = looking(300);
  transport.wakeAt(1_500);
  transport.wakeAt(clock.now() + 60_000);
  await clock.advance(100);
  transport.wakeAt(133);
  assert.equal(clock.pending, 1);
  await clock.advance(32);
  assert.deepEqual(at(), []);
  await clock.advance(1);
  assert.deepEqual(at(), [133]);
  await clock.advance(60_000);
  assert.deepEqual(at(), [133, 433]);
  assert.equal(clock.pending, 0);
  transport.wakeAt(clock.now() + 5);
  transport.stop();
  transport.wakeAt(clock.now() + 5);
  await clock.advance(1_000);
  assert.deepEqual([at().length, clock.pending, transport.connected], [2, 0, false]);
});

test('looks are 20 ms apart however many wake times fall due, and channels are ticked once a second', async () => {
  const { clock, transport, looks, at } = looking(1, 0, -5, ...new Array(100).fill(20));
  transport.wakeAt(clock.now() + 1);
  transport.wakeAt(clock.now() + 0);
  await clock.advance(59);
  assert.deepEqual(at(), [0, 20, 40]);
  await clock.advance(1_941);
  assert.deepEqual(
    looks.filter(({ beat }) => beat).map(({ now }) => now),
    [0, 1_000, 2_000],
  );
  assert.equal(transport.nextBeat, 3_000);
});

test('a timer that fires too early causes no look', async () => {
  const { clock, transport, at } = looking();
  clock.after = (ms, run) => FakeClock.prototype.after.call(clock, ms > 10 ? ms - 8 : ms, run);
  transport.wakeAt(clock.now() + 100);
  await clock.advance(99);
  assert.deepEqual(at(), []);
  await clock.advance(1);
  assert.deepEqual(at(), [100]);
});

test('a look that comes much too late reports that the process stalled', async () => {
  const { clock, transport, looks } = looking(100, 100);
  transport.wakeAt(clock.now() + 100);
  clock.skip(500);
  await clock.advance(0);
  clock.skip(501);
  await clock.advance(100);
  assert.deepEqual(
    looks.map(({ stalled }) => stalled),
    [false, true, false],
  );
});

test('a wake time that is set during a look is kept, and a look that fails does not stop later ones', async () => {
  const clock = new FakeClock(0);
  const at: number[] = [];
  const transport: CallTransport = new CallTransport(
    {} as Wire,
    clock,
    {} as FrameSender,
    () => {},
    ({ now }) => {
      at.push(now);
      if (now < 100) transport.wakeAt(now + 30);
      if (now === 110) throw new Error('a handler failed');
      return Number.POSITIVE_INFINITY;
    },
  );
  transport.wakeAt(50);
  await clock.advance(80);
  transport.wakeAt(110);
  await clock.advance(29);
  assert.deepEqual(at, [50, 80]);
  await assert.rejects(clock.advance(1), /a handler failed/);
  await clock.advance(1_000);
  assert.deepEqual(at, [50, 80, 110, 1_050]);
});

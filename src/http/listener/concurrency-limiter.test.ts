import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConcurrencyLimiter } from './concurrency-limiter.ts';

class Door {
  now = 1_000;
  busy = 1;
  readonly limiter = new ConcurrencyLimiter({
    floor: 4,
    turnMs: 10,
    patienceMs: 500,
    now: () => this.now,
    utilization: () => this.busy,
  });
  entered: number[] = [];
  refused = 0;

  /** One turn of the loop of this length, in which so many calls come. */
  async turn(calls: number, ms: number): Promise<void> {
    for (let i = 0; i < calls; i++) {
      const ticket = this.limiter.enter();
      if (ticket >= 0) this.entered.push(ticket);
      else {
        this.limiter.wait({
          queuedAt: 0,
          enter: (given) => void this.entered.push(given),
          refuse: () => void this.refused++,
        });
      }
    }
    this.now += ms;
    await new Promise((resolve) => setImmediate(resolve));
  }

  answer(count = this.entered.length): void {
    for (const ticket of this.entered.splice(0, count)) this.limiter.leave(ticket);
  }

  /** Closed-loop clients: each client that was answered or refused calls again at once. */
  async overload(clients: number, ms: number, turnMs: number): Promise<void> {
    for (const end = this.now + ms; this.now < end; ) {
      this.answer();
      await this.turn(clients, turnMs);
    }
    this.answer();
  }
}

test('goal:G20 a burst is taken whole, however long it takes, and occasional long turns are no overload', async () => {
  const door = new Door();
  await door.turn(500, 400);
  for (let i = 0; i < 20; i++) {
    await door.turn(50, 100);
    door.answer();
    for (let j = 0; j < 60; j++) await door.turn(1, 2);
  }
  assert.equal(door.refused, 0);
});

test('goal:G20 continued long turns lower the limit, never below the floor', async () => {
  const door = new Door();
  await door.overload(40, 450, 25);
  assert.equal(door.refused, 0);
  assert.equal(door.limiter.limit, Number.POSITIVE_INFINITY);
  await door.overload(40, 3_000, 25);
  assert.ok(door.refused > 0);
  assert.equal(door.limiter.limit, 4);
  // The limiter admits as many calls as the floor on the slowest machine.
  const { refused } = door;
  await door.overload(4, 1_000, 500);
  assert.equal(door.refused, refused);
});

test('goal:G20 the limit rises again when the loop has idle time, and ends when no request waits for it', async () => {
  const door = new Door();
  await door.overload(40, 3_000, 25);
  assert.equal(door.limiter.limit, 4);
  door.busy = 0.7;
  await door.overload(12, 1_000, 5);
  assert.equal(door.limiter.limit, 4);
  door.busy = 0.5;
  await door.overload(12, 1_000, 5);
  assert.ok(door.limiter.limit > 4);
  await door.overload(2, 3_000, 5);
  assert.equal(door.limiter.limit, Number.POSITIVE_INFINITY);
});

test('goal:G20 neither calls that only wait for their servers nor calls whose end was not reported count', async () => {
  const door = new Door();
  await door.turn(5_000, 100);
  assert.equal(door.limiter.active, 5_000);
  const late = door.entered.splice(0);
  for (let i = 0; i < 120; i++) await door.turn(1, 9);
  assert.ok(door.limiter.active <= 120);
  door.answer();
  // Their late answers take no place of other calls away.
  for (const ticket of late) door.limiter.leave(ticket);
  assert.ok(door.limiter.active >= 0 && door.limiter.active <= 120);
  await door.turn(1, 5_000);
  await door.turn(1, 1);
  assert.ok(door.limiter.active <= 2);
  assert.equal(door.refused, 0);
});

test('goal:G20 a loop with idle time is not overloaded, however long its turns', async () => {
  const door = new Door();
  door.busy = 0.8;
  await door.overload(200, 3_000, 50);
  assert.equal(door.refused, 0);
  door.busy = 1;
  await door.overload(200, 3_000, 50);
  assert.ok(door.refused > 0);
});

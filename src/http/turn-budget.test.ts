import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TurnBudget } from './turn-budget.ts';

class Bench {
  now = 100;
  readonly budget = new TurnBudget({ budgetMs: 20, patienceMs: 500, now: () => this.now });

  /** One turn of the loop in which a request arrives at each of these times; tells which were taken in. */
  async turn(...atMs: readonly number[]): Promise<boolean[]> {
    const begin = this.now;
    const taken = atMs.map((ms) => {
      this.now = begin + ms;
      return this.budget.admits();
    });
    await new Promise((resolve) => setImmediate(resolve));
    return taken;
  }
}

test('a burst is taken in whole, however long it takes', async () => {
  const bench = new Bench();
  assert.deepEqual(await bench.turn(0, 10, 300, 310), [true, true, true, true]);
});

test('turn after turn over budget: the rest of each turn is refused, until one keeps to it', async () => {
  const bench = new Bench();
  for (let i = 0; i < 10; i++) assert.deepEqual(await bench.turn(0, 19, 30, 50), [true, true, true, true]);
  assert.deepEqual(await bench.turn(0, 19, 30, 50), [true, true, false, false]);
  assert.deepEqual(await bench.turn(0, 19, 21), [true, true, false]);
  assert.deepEqual(await bench.turn(0, 19), [true, true]);
  assert.deepEqual(await bench.turn(0, 19, 50), [true, true, true]);
});

test('long turns now and then are no overload', async () => {
  const bench = new Bench();
  for (let i = 0; i < 10; i++) {
    assert.deepEqual(await bench.turn(0, 100), [true, true]);
    assert.deepEqual(await bench.turn(0), [true]);
  }
});

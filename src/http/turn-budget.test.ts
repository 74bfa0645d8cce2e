import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TurnBudget } from './turn-budget.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('one turn of the loop takes in requests for so long, the next one begins anew', async () => {
  let now = 100;
  const budget = new TurnBudget(10, () => now);
  await nextTurn();
  assert.ok(budget.admits());
  now += 9;
  assert.ok(budget.admits());
  now += 1;
  assert.ok(!budget.admits());
  now += 500;
  assert.ok(!budget.admits());
  await nextTurn();
  assert.ok(budget.admits(), 'however long the turn before was');
  now += 9;
  assert.ok(budget.admits());
});

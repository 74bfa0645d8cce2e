import assert from 'node:assert/strict';
import { test } from 'node:test';
import { leavePending } from '../soak/pending-input.ts';
import type { Outcome } from '../soak/proof.ts';

function figureOf({ figures }: Outcome, name: string): number {
  const found = figures.find((figure) => figure.name === name);
  assert.ok(found !== undefined, name);
  return found.value;
}

// `npm run prove -- soak --goal parked`, small.
test('proto:S3 200 calls waiting for input cost little each, all end with their results, and leave nothing', async () => {
  const outcome = await leavePending({ say: () => {} }, 200);
  assert.deepEqual(outcome.broken, []);
  assert.equal(figureOf(outcome, 'calls waiting for input'), 200);
  assert.ok(figureOf(outcome, 'heap of each, after GC') <= 64, JSON.stringify(outcome.figures));
  assert.ok(figureOf(outcome, 'timers more than before') <= 0);
});

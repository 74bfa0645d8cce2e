import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSessions } from '../soak/g9.ts';
import { abandonSessions } from '../soak/g10.ts';
import type { Outcome } from '../soak/proof.ts';

const QUIET = { say: () => {} };

/** A figure of the outcome by its name. */
function figureOf({ figures }: Outcome, name: string): number {
  const found = figures.find((figure) => figure.name === name);
  assert.ok(found !== undefined, name);
  return found.value;
}

// The scenarios of `npm run prove`, small; only `npm run prove` judges results that depend on the machine's speed.

test('goal:G9 500 open sessions with SSE: their streams stay open, each costs little, calls beside them are answered', async () => {
  const outcome = await openSessions(QUIET, { sessions: 500, calls: 50 });
  assert.equal(figureOf(outcome, 'streams that did not stay open'), 0);
  assert.ok(figureOf(outcome, 'heap of each') <= 32, `${figureOf(outcome, 'heap of each')} KiB of heap`);
  assert.deepEqual(outcome.broken, []);
});

test('goal:G10 2 000 sessions opened and abandoned: nothing is left of them after they have expired', async () => {
  const outcome = await abandonSessions(QUIET, { sessions: 2_000, overMs: 2_000, idleMs: 5_000 });
  const left = figureOf(outcome, 'heap after expiry and GC over base');
  assert.ok(left <= 8, `${left} MiB of heap`);
  assert.equal(figureOf(outcome, 'refused with 429'), 0);
  assert.ok(figureOf(outcome, 'timers more than before') <= 0);
  assert.ok(figureOf(outcome, 'file descriptors more than before') <= 5);
  assert.ok(figureOf(outcome, 'processes more than before') <= 0);
  assert.deepEqual(outcome.broken, []);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listenToOne } from '../soak/listeners.ts';

// A small run of `npm run prove -- soak --goal listeners`.
test('check:B8 500 listeners on one resource are one subscription at the server; each is notified once, and nothing is left', async () => {
  const { figures, broken } = await listenToOne({ say: () => {} }, 500);
  assert.deepEqual(broken, []);
  const value = (name: string) => figures.find((figure) => figure.name === name)?.value;
  assert.equal(value('subscriptions at the server, at most'), 1);
  assert.equal(value('subscriptions at the server when all have gone'), 0);
  assert.equal(value('listeners that did not get the update exactly once'), 0);
  assert.equal(value('timers more than before'), 0);
});

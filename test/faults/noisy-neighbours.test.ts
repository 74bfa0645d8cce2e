import assert from 'node:assert/strict';
import { test } from 'node:test';
import { besideBadNeighbours } from '../soak/g12.ts';

// The scenario of `npm run prove`, short; only `npm run prove` judges the speed of the good servers.

test('goal:G12 beside a bad neighbour of each of twenty kinds every call of the good servers is answered correctly', async () => {
  const options = { windows: 1, windowMs: 200, calmMs: 0, warmUpMs: 1_000 };
  const { figures, broken } = await besideBadNeighbours({ say: () => {} }, options);
  const figureOf = (name: string): number => figures.find((figure) => figure.name === name)!.value;
  assert.deepEqual(broken, []);
  assert.equal(figureOf('kinds of bad neighbours'), 20);
  assert.equal(figureOf('calls of good servers that were wrong, failed or refused'), 0);
  assert.ok(figureOf('calls of good servers') > 200, `${figureOf('calls of good servers')} calls`);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costAt, fitOf } from './fit.ts';

test('costs that grow with nodes and with pairs of nodes are told apart', () => {
  const cost = (nodes: number) => 300 * nodes + 7 * nodes * nodes;
  const fit = fitOf([10, 20, 50].map((nodes) => [nodes, cost(nodes)] as const));
  assert.ok(fit.off < 1e-6);
  assert.ok(Math.abs(costAt(fit, 1_000) / cost(1_000) - 1) < 1e-6);
});

test('no term is negative, and what does not fit is shown', () => {
  const fit = fitOf([
    [10, 100],
    [20, 150],
    [50, 300],
  ]);
  assert.equal(fit.pairs, 0);
  assert.ok(fit.each > 0);
  assert.ok(fit.off > 0.1);
});

test('nothing costs nothing', () => {
  const fit = fitOf([
    [10, 0],
    [20, 0],
  ]);
  assert.equal(costAt(fit, 1_000), 0);
});

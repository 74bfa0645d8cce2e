import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costAt, fitOf } from './fit.ts';

test('the fit separates costs per node from costs per pair of nodes', () => {
  const cost = (nodes: number) => 300 * nodes + 7 * nodes * nodes;
  const fit = fitOf([10, 20, 50].map((nodes) => [nodes, cost(nodes)] as const));
  assert.ok(fit.off < 1e-6);
  assert.ok(Math.abs(costAt(fit, 1_000) / cost(1_000) - 1) < 1e-6);
});

test('no term is negative, and `off` reports a poor fit', () => {
  const fit = fitOf([
    [10, 100],
    [20, 150],
    [50, 300],
  ]);
  assert.equal(fit.pairs, 0);
  assert.ok(fit.each > 0);
  assert.ok(fit.off > 0.1);
});

test('zero costs give zero', () => {
  const fit = fitOf([
    [10, 0],
    [20, 0],
  ]);
  assert.equal(costAt(fit, 1_000), 0);
});

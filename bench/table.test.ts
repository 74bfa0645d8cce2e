import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Row } from './row.ts';
import type { Limit } from './scenarios.ts';
import { verdict } from './table.ts';

const limit: Limit = { of: 'two', to: 'one', figure: 'cpuUs', most: 1.1 };

function row(target: string, cpuUs: readonly number[], problem = ''): Row {
  return { target, problem, byRound: { cpuUs, kibPerSession: [], heldPerSession: [] } } as unknown as Row;
}

function reported(one: readonly number[], two: readonly number[], problem = ''): string {
  return verdict(limit, [row('other', [1, 1, 1]), row('two', two, problem), row('one', one)]);
}

test('a limit is judged by the median of the ratios of the same rounds, and may be reached exactly', () => {
  // The ratio of the two medians, 200 to 100, would be 2.00.
  assert.equal(
    reported([100, 200, 10], [110, 200, 500]),
    'CPU per call, two to one: 1.10 (half of the 3 rounds 1.05 to 25.55), at most 1.10: holds',
  );
  assert.match(
    reported([100, 100], [110, 112]),
    /: 1\.11 \(half of the 2 rounds 1\.10 to 1\.12\), at most 1\.10: does not hold$/,
  );
  assert.match(reported([10], [5]), /: 0\.50 \(half of the 1 rounds 0\.50 to 0\.50\), at most 1\.10: holds$/);
});

test('a value that was not measured in every round, or is void, is not judged', () => {
  for (const text of [
    reported([1, 2], [1]),
    reported([], []),
    reported([0, 1], [1, 0]),
    reported([1], [1], 'absent'),
  ]) {
    assert.equal(text, 'CPU per call, two to one: not measured');
  }
});

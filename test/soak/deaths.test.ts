import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClusterFigures, Timed } from '../chaos/cluster-figures.ts';
import { tallyOf } from './cluster-chaos.ts';
import { bothDeaths, judgeDeaths, NO_DEATHS, remarkable } from './deaths.ts';
import { holds } from './proof.ts';

const took = (ms: number, stoodMs = 0): Timed => ({ ms, stoodMs });
const GOOD: ClusterFigures = {
  deaths: 20,
  stood: 0,
  inFlight: [took(1_900)],
  next: [took(40)],
  reborn: [took(2_500)],
  spawn: [200],
};
const verdict = (change: Partial<ClusterFigures>): boolean => holds(judgeDeaths({ ...GOOD, ...change }));

test('goal:G5 the proof of deaths is valid only if something was measured, and in time', () => {
  assert.ok(verdict({}));
  assert.ok(!holds(judgeDeaths(NO_DEATHS)));
  for (const nothing of ['inFlight', 'next', 'reborn'] as const) assert.ok(!verdict({ [nothing]: [] }), nothing);
  assert.ok(!verdict({ inFlight: [took(1_900), took(2_001)] }));
  assert.ok(!verdict({ next: [took(3_001)] }));
  assert.ok(!verdict({ reborn: [took(3_001)] }));
});

test('goal:G5 time for which a node was stopped is subtracted, for at most a tenth of the deaths, never for all', () => {
  const late = { inFlight: [took(3_054, 1_200)] };
  assert.ok(verdict({ ...late, stood: 2 }));
  assert.ok(!verdict({ inFlight: [took(3_054, 1_000)], stood: 1 }));
  assert.ok(!verdict({ ...late, stood: 3 }));
  assert.ok(verdict({ ...late, deaths: 4, stood: 1 }));
  assert.ok(!verdict({ ...late, deaths: 1, stood: 1 }));
  const { figures } = judgeDeaths({ ...GOOD, ...late, stood: 1 });
  assert.deepEqual(
    figures.filter(({ name }) => name.startsWith('last answer')).map(({ value, atMost }) => [value, atMost]),
    [
      [1_854, 2_000],
      [3_054, null],
    ],
  );
});

test('a history is kept if a caller was notified late or the machine stopped a node; parts are added up', () => {
  assert.deepEqual([remarkable(GOOD), remarkable({ ...GOOD, stood: 1 })], [false, true]);
  assert.ok(remarkable({ ...GOOD, inFlight: [took(2_100, 2_000)] }));
  const sum = bothDeaths(GOOD, { ...GOOD, stood: 1 });
  assert.deepEqual([sum.deaths, sum.stood, sum.inFlight.length, sum.spawn], [40, 1, 2, [200, 200]]);
});

test('a run that an older version of the proof began is not continued', () => {
  const kept = (value: object | null) => ({ get: <T>() => value as T | null });
  assert.equal(tallyOf(kept(null)).parts, 0);
  assert.throws(
    () => tallyOf(kept({ parts: 2, inFlight: [1], broken: [] })),
    /older version of this proof: begin anew/,
  );
});

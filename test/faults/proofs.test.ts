import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { figure, holds, percentile } from '../../scripts/prove/proof.ts';
import { PROOFS } from '../../scripts/prove/proofs.ts';
import type { Kept } from '../../scripts/prove/report.ts';

const FOLDER = resolve(import.meta.dirname, '../../docs/proof');

test('every proof has a kept result whose verdict follows from its figures, and the summary has it', () => {
  const summary = readFileSync(join(FOLDER, 'README.md'), 'utf8');
  for (const { id, claim } of PROOFS) {
    const kept = JSON.parse(readFileSync(join(FOLDER, `${id}.json`), 'utf8')) as Kept;
    assert.equal(kept.claim, claim);
    assert.equal(kept.holds, holds(kept), id);
    assert.ok(summary.includes(`| ${id} | ${kept.holds ? 'holds' : '**does not hold**'} |`), id);
  }
});

test('percentiles, and verdicts', () => {
  const values = Array.from({ length: 100 }, (_, i) => 100 - i);
  assert.deepEqual([percentile(values, 50), percentile(values, 99), percentile(values, 100)], [50, 99, 100]);
  assert.equal(percentile([], 99), 0);
  const good = [figure('a', 1, 'ms', 1), figure('b', 9, 'ms')];
  assert.ok(holds({ figures: good, broken: [] }));
  assert.ok(!holds({ figures: good, broken: ['something'] }));
  assert.ok(!holds({ figures: [figure('a', 1.01, 'ms', 1)], broken: [] }));
});

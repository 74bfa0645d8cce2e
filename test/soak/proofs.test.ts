import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { measured, readMeasured } from '../faults/measured.ts';
import { until } from '../support/cluster-processes.ts';
import { childrenOf, livingAmong } from '../support/processes.ts';
import { slopePerHour } from './g11.ts';
import { figure, holds, percentile } from './proof.ts';
import { PROOFS } from './proofs.ts';
import type { Kept } from './report.ts';
import { watchWaiting } from './waiting.ts';

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

test('how busy the machine was: what was waited for a processor, of the time there was something to do', () => {
  const told = [
    { ran: 500, waited: 700 },
    { ran: 800, waited: 800 },
  ];
  const [share] = watchWaiting(() => told.shift()!)();
  assert.deepEqual([share!.value, share!.unit, share!.atMost], [25, '%', null]);
  assert.deepEqual(watchWaiting(() => null)(), []);
});

test('a proof that is interrupted leaves no process behind', async () => {
  const interrupt = resolve(import.meta.dirname, 'interrupt.ts');
  const program = `
    import { spawn } from 'node:child_process';
    import { endOnInterrupt } from ${JSON.stringify(interrupt)};
    endOnInterrupt();
    const { pid } = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true });
    console.log(pid);`;
  const proof = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [said] = (await once(proof.stdout, 'data')) as [Buffer];
  const pid = Number(said.toString());
  const [child] = childrenOf(proof.pid!).filter(([one]) => one === pid);
  assert.equal(livingAmong([child!]).length, 1);
  proof.kill('SIGTERM');
  assert.deepEqual(await once(proof, 'exit'), [143, null]);
  await until(() => livingAmong([child!]).length === 0, 'the process of the proof to end');
});

test('goal:G11 the slope of the heap: one for all runs of an interrupted soak, each from its own level', () => {
  const line = (run: number, level: number, perHour: number) =>
    Array.from({ length: 60 }, (_, minute) => ({
      run,
      atMs: minute * 60_000,
      heapBytes: level + (perHour * minute) / 60 + (minute % 2 === 0 ? 100 : -100),
      rssBytes: 0,
    }));
  const one = slopePerHour(line(1, 20_000_000, 5_000_000));
  assert.ok(Math.abs(one - 5_000_000) < 1_000, `${one}`);
  // A second run begins lower and grows as fast: that is no fall.
  const both = slopePerHour([...line(1, 20_000_000, 5_000_000), ...line(2, 10_000_000, 5_000_000)]);
  assert.ok(Math.abs(both - 5_000_000) < 1_000, `${both}`);
  assert.ok(Math.abs(slopePerHour(line(1, 20_000_000, 0))) < 1_000);
  assert.equal(slopePerHour([]), 0);
});

test('what a test has measured is told by a diagnostic message, and other messages are not taken for it', () => {
  const told: string[] = [];
  measured({ diagnostic: (message) => told.push(message) }, 'F03', 'error to the caller', [1.5, 2], 'ms', 100);
  assert.deepEqual(
    told.map((message) => readMeasured(message)),
    [1.5, 2].map((value) => ({ row: 'F03', name: 'error to the caller', value, unit: 'ms', atMost: 100 })),
  );
  assert.equal(readMeasured('seed 42'), null);
});

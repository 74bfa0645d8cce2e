import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { measured, readMeasured } from '../faults/measured.ts';
import { until } from '../support/cluster-processes.ts';
import { childrenOf, livingAmong } from '../support/processes.ts';
import { slopePerHour } from './g11.ts';
import { figure, holds, percentile } from './proof.ts';
import { PROOFS } from './proofs.ts';
import { recordFile, TABLE } from './report.ts';
import { watchWaiting } from './waiting.ts';

const LIMITED = /: (-?[\d.]+)[^;]*? \(≤ ([\d.]+)\)/g;

/** The cells of the row of a claim. */
function rowOf(id: string, table: string): Record<'claim' | 'verdict' | 'figures' | 'command', string> {
  const rows = table.split('\n').filter((line) => line.startsWith(`| ${id} |`));
  assert.equal(rows.length, 1, `rows of ${id}`);
  const [, , claim, verdict, figures, , , , command] = rows[0]!.split(/ ?(?<!\\)\| ?/) as string[];
  return { claim: claim!, verdict: verdict!, figures: figures!, command: command! };
}

test('the table has every claim once, and its verdict follows from its figures', () => {
  const table = readFileSync(TABLE, 'utf8');
  for (const { id, group, claim } of PROOFS) {
    const row = rowOf(id, table);
    assert.equal(row.claim, claim);
    const limited = [...row.figures.matchAll(LIMITED)];
    assert.ok(limited.length > 0, id);
    const good = !row.figures.includes('broken: ') && limited.every(([, value, most]) => Number(value) <= Number(most));
    assert.match(row.verdict, good ? /^holds/ : /^\*\*does not hold\*\*/, id);
    assert.match(row.command, new RegExp(`npm run prove -- ${group} --(goal|rows) ${id}\\b`));
  }
  assert.equal(table.split('\n').filter((line) => /^\| (?!id )/.test(line)).length, PROOFS.length);
});

test('the result of another checkout replaces the row of its claim only; an invalid file is refused', () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'trunkline-proof-'));
  const table = join(folder.path, 'proof.md');
  const file = join(folder.path, 'result.json');
  const before = readFileSync(TABLE, 'utf8');
  writeFileSync(table, before);
  const { id, claim } = PROOFS.find((proof) => proof.id === 'G9')!;
  const result = {
    id,
    claim: 'as it was worded before',
    holds: true,
    date: '2026-12-01T10:00:00.000Z',
    seed: 77,
    command: 'npm run prove -- soak --goal G9 --short --seed 77',
    seconds: 5,
    machine: '2 × Intel(R) Xeon(R) Processor, Node v24.21.0',
    commit: null,
    leftOut: 'most',
    figures: [
      figure('sessions', 4, ''),
      figure('old: memory', 9, 'KiB', 32),
      figure('new: memory', 33, 'KiB', 32),
      figure('streams', 3, ''),
    ],
    broken: ['a | b\nc'],
  };
  writeFileSync(file, JSON.stringify(result));
  assert.equal(recordFile(file, table).holds, false);
  const after = readFileSync(table, 'utf8');
  const others = (text: string): string[] => text.split('\n').filter((line) => !line.startsWith('| G9 |'));
  assert.deepEqual(others(after), others(before));
  assert.equal(
    after.split('\n').find((line) => line.startsWith('| G9 |')),
    `| G9 | ${claim} | **does not hold**, without most | sessions: 4; memory: 33 KiB (≤ 32); broken: a \\| b c | 77 | 2026-12-01, 5 s on 2 × Intel Xeon | unknown | \`npm run prove -- soak --goal G9 --short\` |`,
  );
  assert.deepEqual(
    after.split('\n').findIndex((line) => line.startsWith('| G9 |')),
    before.split('\n').findIndex((line) => line.startsWith('| G9 |')),
  );
  for (const bad of [null, {}, { ...result, id: 'G99' }, { ...result, figures: undefined }]) {
    writeFileSync(file, JSON.stringify(bad));
    assert.throws(() => recordFile(file, table), /is not the result of a claim/);
  }
  assert.equal(readFileSync(table, 'utf8'), after);
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

test('the load of the machine is the wait for a processor, in relation to the time with work', () => {
  const reported = [
    { ran: 500, waited: 700 },
    { ran: 800, waited: 800 },
  ];
  const [share] = watchWaiting(() => reported.shift()!)();
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

test('goal:G11 all runs of an interrupted soak have one slope of the heap, each run from its own level', () => {
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

test('a diagnostic message has what a test measured, and other messages do not count', () => {
  const reported: string[] = [];
  measured({ diagnostic: (message) => reported.push(message) }, 'F03', 'error to the caller', [1.5, 2], 'ms', 100);
  assert.deepEqual(
    reported.map((message) => readMeasured(message)),
    [1.5, 2].map((value) => ({ row: 'F03', name: 'error to the caller', value, unit: 'ms', atMost: 100 })),
  );
  assert.equal(readMeasured('seed 42'), null);
});

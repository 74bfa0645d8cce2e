import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import type { Ran } from '../scripts/run-record.ts';
import { runVerdict } from '../scripts/run-verdict.ts';

const REPORTER = resolve(import.meta.dirname, '../scripts/run-record.ts');

/** The report of the real test runner on this source. `ROW1` is a row: written out, it would be a citation in this file. */
function recordOf(source: string): Ran[] {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-record-'));
  try {
    writeFileSync(
      join(folder, 'a.test.mjs'),
      `import { describe, test } from 'node:test';\n${source.replaceAll('ROW', 'S1.')}`,
    );
    const to = join(folder, 'record');
    const args = ['--test', `--test-reporter=${REPORTER}`, `--test-reporter-destination=${to}`, 'a.test.mjs'];
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    spawnSync(process.execPath, args, { cwd: folder, env });
    const lines = readFileSync(to, 'utf8').trim().split('\n');
    return lines.map((line) => JSON.parse(line) as Ran);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('an id counts where a test that cites it, or one in a suite that cites it, ran', () => {
  const ran = recordOf(`
    describe('ROW1 ran', () => { test('ROW2 ran', () => {}); test('ROW3 not', { skip: 'no engine' }, () => {}); });
    describe('ROW4 nothing ran', () => { test('ROW5 not', { skip: true }, () => {}); });
    describe('ROW6 not', { skip: 'no sshd' }, () => { test('ROW7 not', () => {}); });
    describe('ROW8 deep', () => { describe('ROW9 empty', () => {}); describe('in', () => { test('ROW10 ran', () => {}); }); });
    test('ROW11 failed', () => { throw new Error(); });
    test('ROW12 later', (t) => t.skip('not here'));
  `);
  const ids = Array.from({ length: 12 }, (_, at) => `S1.${at + 1}`);
  const { lines, fails } = runVerdict(ran, ids, false);
  assert.equal(lines.at(-1), 'NOT PROVEN: no test that cites these ran: S1.3 S1.4 S1.5 S1.6 S1.7 S1.9 S1.12');
  assert.ok(lines.some((line) => line.endsWith('a.test.mjs: S1.3 not (no engine)')));
  assert.ok(fails);
});

test('a row that no test proved fails the run; other ids do so where everything that tests need is installed', () => {
  const ran: Ran[] = [{ file: 'a', title: 'fault:F01 S1.1', outcome: 'skipped', reason: 'none here' }];
  assert.equal(runVerdict(ran, [], true).fails, false);
  assert.equal(runVerdict(ran, ['fault:F01'], false).fails, false);
  assert.equal(runVerdict(ran, ['fault:F01'], true).fails, true);
  assert.equal(runVerdict(ran, ['S1.1'], false).fails, true);
});

test('a file that exits before its tests end has failed, though the runner reports it as passed', () => {
  const [ran] = recordOf(
    `test('a', () => {}); test('b', async () => process.exit(0)); test('c', () => { throw new Error(); });`,
  );
  assert.equal(ran?.outcome, 'failed');
  assert.match(ran?.reason ?? '', /no test of the file has ended/);
});

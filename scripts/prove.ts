/**
 * `npm run prove -- faults|chaos|soak [--goal G7] [--seed N] [--resume] [--short]`: tries the claims that need more
 * time than `npm test` has, at real constants, and keeps what came out under `docs/proof/`. Exit code 0: all hold.
 * `--resume` goes on with an interrupted run: what was finished is not done again. `--short` leaves out what takes ten
 * minutes, and the result says so.
 */
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { KeptFile } from './prove/kept-file.ts';
import { PROOFS } from './prove/proofs.ts';
import { report } from './prove/report.ts';

const GROUPS = ['faults', 'chaos', 'soak'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    goal: { type: 'string' },
    seed: { type: 'string' },
    resume: { type: 'boolean', default: false },
    short: { type: 'boolean', default: false },
  },
});
const [group] = positionals;
const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed);
const chosen = PROOFS.filter((proof) => proof.group === group && (values.goal ?? proof.id) === proof.id);

if (group === undefined || !GROUPS.includes(group) || !Number.isSafeInteger(seed) || chosen.length === 0) {
  console.error('usage: npm run prove -- faults|chaos|soak [--goal G7] [--seed N] [--resume] [--short]');
  for (const { id, group: of, claim } of PROOFS) console.error(`  ${of} --goal ${id}: ${claim}`);
  process.exit(1);
}

// The ledger's fsync is to be honest, not slow.
if (existsSync('/dev/shm')) {
  process.env['TRUNKLINE_PROVE_DIR'] ??= process.env['TMPDIR'] ?? '/tmp';
  process.env['TMPDIR'] = '/dev/shm';
}

console.log(`seed ${seed}`);
const flags = [values.goal === undefined ? '' : ` --goal ${values.goal}`, values.short ? ' --short' : ''].join('');
const kept = new KeptFile(`${group}-${values.goal ?? 'all'}`, values.resume);
const done = kept.get<string[]>('done') ?? [];
let failed = 0;

for (const proof of chosen) {
  if (done.includes(proof.id)) continue;
  console.log(`\n${proof.id}: ${proof.claim}`);
  const begun = performance.now();
  const outcome = await proof.run({
    seed,
    short: values.short,
    say: (text) => console.log(`  ${new Date().toISOString().slice(11, 19)} ${text}`),
    kept,
  });
  const seconds = (performance.now() - begun) / 1000;
  const command = `npm run prove -- ${group}${flags} --seed ${seed}`;
  const result = report(proof, outcome, { seed, short: values.short, seconds, command });
  for (const { name, value, unit, atMost } of result.figures) {
    const limit = atMost === null ? '' : ` (at most ${atMost} ${unit}${value <= atMost ? '' : ': DOES NOT HOLD'})`;
    console.log(`  ${name}: ${value} ${unit}${limit}`);
  }
  for (const text of result.broken) console.log(`  BROKEN: ${text}`);
  if (!result.holds) failed++;
  done.push(proof.id);
  kept.set('done', done);
}
kept.clear();
process.exitCode = failed === 0 ? 0 : 1;

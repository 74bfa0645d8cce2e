/**
 * `npm run prove -- faults|chaos|soak [--goal G7] [--rows F01,F03] [--seed N] [--resume] [--short]`: tries the claims that
 * need more time than `npm test` has, at real constants, and keeps what came out under `docs/proof/`. Exit code 0: all
 * hold. `--resume` goes on with an interrupted run: what was finished is not done again. `--short` leaves out what takes
 * ten minutes, and the result says so.
 */
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { endOnInterrupt } from '../test/soak/interrupt.ts';
import { KeptFile } from '../test/soak/kept-file.ts';
import { PROOFS } from '../test/soak/proofs.ts';
import { report } from '../test/soak/report.ts';
import { watchWaiting } from '../test/soak/waiting.ts';

const GROUPS = ['faults', 'chaos', 'soak'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    goal: { type: 'string' },
    rows: { type: 'string' },
    seed: { type: 'string' },
    resume: { type: 'boolean', default: false },
    short: { type: 'boolean', default: false },
  },
});
const [group] = positionals;
const wanted = (values.rows ?? values.goal)?.split(',');
const known = PROOFS.filter((proof) => proof.group === group);
const chosen = known.filter(({ id }) => wanted?.includes(id) ?? true);
const unknown = wanted?.filter((id) => !known.some((proof) => proof.id === id)) ?? [];
const given = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed);

if (group === undefined || !GROUPS.includes(group) || !Number.isSafeInteger(given) || unknown.length > 0) {
  console.error(
    'usage: npm run prove -- faults|chaos|soak [--goal G7] [--rows F01,F03] [--seed N] [--resume] [--short]',
  );
  for (const { id, group: of, claim } of PROOFS) console.error(`  ${of} --goal ${id}: ${claim}`);
  process.exit(1);
}

// The ledger's fsync is to be honest, not slow.
if (existsSync('/dev/shm')) {
  process.env['TRUNKLINE_PROVE_DIR'] ??= process.env['TMPDIR'] ?? '/tmp';
  process.env['TMPDIR'] = '/dev/shm';
}

endOnInterrupt();

const kept = new KeptFile(`${group}-${wanted?.join('+') ?? 'all'}`, values.resume);
const seed = kept.get<number>('seed') ?? given;
kept.set('seed', seed);
console.log(`seed ${seed}`);
const selection = values.rows === undefined ? 'goal' : 'rows';
const flags = [wanted === undefined ? '' : ` --${selection} ${wanted.join(',')}`, values.short ? ' --short' : ''].join(
  '',
);
const minutes = process.env['TRUNKLINE_CHAOS_MINUTES'];
const setting = minutes === undefined || group !== 'chaos' ? '' : `TRUNKLINE_CHAOS_MINUTES=${minutes} `;
const done = kept.get<string[]>('done') ?? [];
let failed = 0;

for (const proof of chosen) {
  if (done.includes(proof.id)) continue;
  console.log(`\n${proof.id}: ${proof.claim}`);
  const begun = performance.now();
  const waiting = watchWaiting();
  const found = await proof.run({
    seed,
    short: values.short,
    say: (text) => console.log(`  ${new Date().toISOString().slice(11, 19)} ${text}`),
    kept,
  });
  const outcome = { ...found, figures: [...found.figures, ...waiting()] };
  const seconds = (performance.now() - begun) / 1000;
  const command = `${setting}npm run prove -- ${group}${flags} --seed ${seed}`;
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

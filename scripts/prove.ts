/**
 * `npm run prove -- faults|chaos|soak [--goal G7] [--rows F01,F03] [--seed N] [--resume] [--short]` tries the claims that
 * need more time than `npm test` has, at real constants. Each result becomes a row of `docs/developers/proof.md`; all its figures are
 * in `build/proof/`. The exit code is 0 if all hold. `--resume` continues an interrupted run and does not repeat what was
 * finished. `--short` leaves out what takes ten minutes, and the row says so. `--record FILE` runs nothing: it records a
 * result from the `build/proof/` of another checkout.
 */
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { endOnInterrupt } from '../test/soak/interrupt.ts';
import { KeptFile } from '../test/soak/kept-file.ts';
import { PROOFS } from '../test/soak/proofs.ts';
import { recordFile, report } from '../test/soak/report.ts';
import { watchWaiting } from '../test/soak/waiting.ts';

const GROUPS = ['faults', 'chaos', 'soak'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    record: { type: 'string' },
    goal: { type: 'string' },
    rows: { type: 'string' },
    seed: { type: 'string' },
    resume: { type: 'boolean', default: false },
    short: { type: 'boolean', default: false },
  },
});
if (values.record !== undefined) {
  try {
    const { id, holds } = recordFile(values.record);
    console.log(`${id} ${holds ? 'holds' : 'does not hold'}`);
    process.exit(0);
  } catch (error) {
    console.error(String(error));
    process.exit(1);
  }
}

const [group] = positionals;
const wanted = (values.rows ?? values.goal)?.split(',');
const known = PROOFS.filter((proof) => proof.group === group);
const chosen = known.filter(({ id }) => wanted?.includes(id) ?? true);
const unknown = wanted?.filter((id) => !known.some((proof) => proof.id === id)) ?? [];
const given = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed);

if (group === undefined || !GROUPS.includes(group) || !Number.isSafeInteger(given) || unknown.length > 0) {
  console.error(
    'usage: npm run prove -- faults|chaos|soak [--goal G7] [--rows F01,F03] [--seed N] [--resume] [--short]\n' +
      '       npm run prove -- --record FILE',
  );
  for (const { id, group: of, claim } of PROOFS) console.error(`  ${of} --goal ${id}: ${claim}`);
  process.exit(1);
}

// In /dev/shm the fsync calls of the ledger are fast.
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
const flags = values.short ? ' --short' : '';
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
  const command = `${setting}npm run prove -- ${group} --${selection} ${proof.id}${flags} --seed ${seed}`;
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

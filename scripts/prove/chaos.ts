import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chaosRun } from '../../test/chaos/chaos-run.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

async function run({ seed, short, say }: Run): Promise<Outcome> {
  const minutes = short ? 3 : 10;
  const durationMs = minutes * 60_000;
  const result = await chaosRun({ seed, durationMs, clients: 16, everyMs: 500, restarts: true, say });
  const { violations, endings, misfortunes, dead } = result;
  if (violations.length > 0 || dead.length > 0) {
    const file = join(process.env['TRUNKLINE_PROVE_DIR'] ?? tmpdir(), `trunkline-chaos-${seed}.json`);
    writeFileSync(file, JSON.stringify(result.history));
    say(`the whole history is in ${file}`);
  }
  return {
    figures: [
      figure('duration', minutes, 'min'),
      ...Object.entries(misfortunes).map(([name, count]) => figure(`misfortune: ${name}`, count, '')),
      ...Object.entries(endings).map(([name, count]) => figure(`calls ended ${name}`, count, '')),
      figure('violations of the ledger', violations.length, '', 0),
      figure('servers dead in the end', dead.length, '', 0),
    ],
    broken: [...violations.map(({ rule, call, text }) => `(${rule}) ${call}: ${text}`), ...dead].slice(0, 20),
  };
}

export const CHAOS: Proof = {
  id: 'chaos',
  group: 'chaos',
  claim:
    'One node under seeded misfortune (servers killed, sessions churned, readers stalled, files rewritten, the gateway stopped and killed): ledger rules (a)–(f) hold',
  shortened: 'seven of the ten minutes',
  run,
};

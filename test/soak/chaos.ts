import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chaosRun } from '../chaos/chaos-run.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const MIB = 1024 * 1024;

async function run({ seed, short, say }: Run): Promise<Outcome> {
  const minutes = short ? 3 : 10;
  const result = await chaosRun({
    seed,
    durationMs: minutes * 60_000,
    clients: 16,
    everyMs: 500,
    restartEveryMs: 20_000,
    lateMs: 1_000,
    say,
  });
  const { violations, lost, endings, npmEndings, misfortunes, dead, before, after } = result;
  if (violations.length + lost.length + dead.length > 0) {
    const file = join(process.env['TRUNKLINE_PROVE_DIR'] ?? tmpdir(), `trunkline-chaos-${seed}.json`);
    writeFileSync(file, JSON.stringify(result.history));
    say(`the whole history is in ${file}`);
  }
  return {
    figures: [
      figure('duration', minutes, 'min'),
      ...Object.entries(misfortunes).map(([name, count]) => figure(`misfortune: ${name}`, count, '')),
      ...Object.entries(endings).map(([name, count]) => figure(`calls ended ${name}`, count, '')),
      ...Object.entries(npmEndings).map(([name, count]) => figure(`calls of npm servers ended ${name}`, count, '')),
      figure('violations of the ledger', violations.length, '', 0),
      figure('answers lost while the gateway was up', lost.length, '', 0),
      figure('servers dead in the end', dead.length, '', 0),
      figure('processes beyond one of each server', Math.max(0, after.extraProcesses), '', 0),
      figure('file descriptors more than before', after.descriptors - before.descriptors, '', 8),
      figure('heap before, after GC', before.heapBytes / MIB, 'MiB'),
      figure('heap more than before, after GC', (after.heapBytes - before.heapBytes) / MIB, 'MiB', 8),
    ],
    broken: [...violations.map(({ rule, call, text }) => `(${rule}) ${call}: ${text}`), ...lost, ...dead].slice(0, 20),
  };
}

export const CHAOS: Proof = {
  id: 'chaos',
  group: 'chaos',
  claim:
    'One node with ten servers and 16 clients under seeded faults (servers killed, stopped, hanging, flooding; sessions opened and abandoned, readers stalled, files rewritten, the gateway stopped and killed) keeps ledger rules (a)–(f), loses no answer and leaves nothing behind',
  shortened: 'seven of the ten minutes',
  run,
};

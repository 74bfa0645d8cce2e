import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { clusterChaos, wrongs } from './cluster-chaos.ts';

test('goal:G2 goal:G4 check:H7 a minute of seeded faults over three nodes, NATS and the database: every call ends in its correct outcome, never two owners, nothing acknowledged is lost', {
  timeout: 400_000,
}, async (t) => {
  const seed = Number(process.env['CHAOS_SEED'] ?? Date.now() % 2 ** 31);
  t.diagnostic(`seed ${seed}; CHAOS_SEED=${seed} tries the same misfortunes again`);
  const keep = (all: object): void => {
    const file = join(tmpdir(), `trunkline-cluster-chaos-${seed}.json`);
    writeFileSync(file, JSON.stringify(all));
    t.diagnostic(`the whole history is in ${file}`);
  };
  const result = await clusterChaos({
    seed,
    durationMs: 60_000,
    clients: 64,
    // So that all of them make as many calls as a dozen busy ones would: some twenty a second.
    pauseMs: 3_000,
    everyMs: 1_000,
    stopMs: 8_000,
    // The rules allow a second, which `npm run prove` checks on a machine without other load. Here two test files run at once
    // on any machine: a call may be late because of the machine, but not as late as a call that is never ended.
    lateMs: 5_000,
    reapedMs: 5_000,
    keep,
  });
  const { endings, publicEndings, misfortunes, writes, history } = result;
  t.diagnostic(JSON.stringify({ endings, publicEndings, misfortunes, writes }));
  const wrong = wrongs(result);
  if (wrong.length > 0) keep(history);
  assert.deepEqual(wrong, []);
  assert.ok(endings.RESULT > 200, `only ${endings.RESULT} calls succeeded`);
  assert.ok((publicEndings['RESULT'] ?? 0) > 50, `only ${publicEndings['RESULT']} public calls succeeded`);
  assert.ok((writes['made'] ?? 0) > 5, `only ${writes['made']} changes were acknowledged`);
  assert.ok(Object.keys(misfortunes).length > 2, 'there was hardly any misfortune');
});

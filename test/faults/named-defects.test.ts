import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Seeded } from '../chaos/seeded.ts';
import { FaultBench, until } from './fault-bench.ts';
import { FULL } from './measured.ts';

const FAILPOINTS = join(import.meta.dirname, 'named-failpoints.ts');
const PLACES = Number(process.env['F42_PLACES'] ?? (FULL ? 30 : 8));
/** Where a defect once left a call without an answer, or with a wrong word. */
const FOUND = [
  'admission Admission.leave',
  'plain-connection PlainConnection.answered',
  'supervisor Supervisor.proved',
  'call Call.answered',
  'dispatcher Dispatcher.answered',
  'connection-use ConnectionUse.answered',
];
const TIMEOUT_MS = 3_000;
/** Far beyond every deadline, also on a busy machine. */
const PATIENCE_MS = 60_000;

test(`fault:F42 a defect in each of ${PLACES} places, drawn from all that a call goes through: every call ends, exit 70 or it goes on, nothing lost`, async (t) => {
  const seed = Number(process.env['F42_SEED'] ?? (FULL ? Date.now() % 2 ** 31 : 42));
  t.diagnostic(`seed ${seed}`);
  const random = new Seeded(seed);
  const bench = new FaultBench(t);
  const file = join(bench.folder, 'failpoint');
  const servers = { one: bench.stdio('one', 'stateful', { isolation: 'shared', timeoutMs: TIMEOUT_MS }) };
  const start = async (): Promise<void> => {
    const env = { NODE_OPTIONS: `--import=${FAILPOINTS}`, FAILPOINT_FILE: file };
    await bench.start(servers, { log: { level: 'warn' } }, env);
    await bench.gateway.ready();
  };
  let made = 0;
  /** What clients of both eras do; each call ends in a word, or with the gateway. */
  const calls = async (): Promise<void> => {
    for (const era of ['stateful', 'stateless'] as const) {
      const client = bench.client(`c${++made}`, era);
      await client.open().catch(() => {});
      if (era === 'stateless' || client.sessionId !== null) {
        await Promise.all([
          client.call('one__unsafe'),
          client.call('one__slow', { ms: 20 }),
          client.call('one__big', { bytes: 1e5 }),
        ]);
        await client.request('tools/list').catch(() => {});
      }
      await client.end();
    }
  };
  const tell = async (place: string, answer: string): Promise<void> => {
    rmSync(answer, { force: true });
    writeFileSync(file, place);
    bench.gateway.process.kill('SIGUSR2');
    await until(answer, () => existsSync(answer));
  };
  writeFileSync(file, '');
  await start();
  await calls();
  // Only what this second round goes through: the start is another matter.
  await tell('', `${file}.seen`);
  const seen = readFileSync(`${file}.seen`, 'utf8').split('\n');
  assert.ok(seen.length > 100, `only ${seen.length} places are known`);
  for (const place of FOUND) assert.ok(seen.includes(place), `${place} is gone: name another like it`);
  const others = seen.filter((place) => !FOUND.includes(place));
  const queue = [...FOUND];
  while (others.length > 0) queue.push(...others.splice(random.below(others.length), 1));

  const results: Record<string, number> = { 'exit 70': 0, 'went on': 0 };
  let met = 0;
  /** Which place the calls of a client met, by the client's number. */
  const placeOf: string[] = [];
  for (const place of queue) {
    if (met === PLACES) break;
    const first = made;
    rmSync(`${file}.met`, { force: true });
    await tell(place, `${file}.armed`);
    const hung = await Promise.race([calls().then(() => false), sleep(PATIENCE_MS, true, { ref: false })]);
    assert.ok(!hung, `a call of ${place} did not end\n${bench.gateway.stderr.slice(-2_000)}`);
    if (!existsSync(`${file}.met`)) continue;
    met++;
    // A defect that nobody caught ends the process, after what was in flight.
    let ended = false;
    await until(
      `it serves after ${place}`,
      async () => {
        if (bench.gateway.process.exitCode !== null) {
          assert.equal(bench.gateway.process.exitCode, 70, `${place}\n${bench.gateway.stderr.slice(-2_000)}`);
          assert.match(bench.gateway.stderr, /planted defect/, place);
          ended = true;
          await start();
        }
        const client = bench.client(`after${++made}`, 'stateful');
        await client.open().catch(() => {});
        const served = client.sessionId !== null && (await client.call('one__unsafe')).ending === 'RESULT';
        await client.end();
        return served && !(bench.gateway.stderr.includes('"event":"crash"') && !ended);
      },
      60_000,
    );
    results[ended ? 'exit 70' : 'went on']!++;
    for (let client = first + 1; client <= made; client++) placeOf[client] = place;
  }
  t.diagnostic(JSON.stringify(results));
  if (process.env['F42_PLACES'] === undefined) assert.equal(met, PLACES);
  const violations = bench.violations(['one'], { deadlineMs: TIMEOUT_MS, lateMs: 60_000 });
  const named = violations.map((one) => ({ ...one, place: placeOf[Number(/^[a-z]+(\d+)-/.exec(one.call)?.[1])] }));
  assert.deepEqual(named, []);
});

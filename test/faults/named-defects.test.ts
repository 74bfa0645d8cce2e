import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Seeded } from '../chaos/seeded.ts';
import { FaultBench, until } from './fault-bench.ts';
import { LedgerHttpProcess } from './ledger/ledger-process.ts';
import { FULL } from './measured.ts';

/** The places are methods in files of the source, so the gateway runs from source. */
const FAILING = { NODE_OPTIONS: `--import=${join(import.meta.dirname, 'named-failpoints.ts')}`, TRUNKLINE_BUILT: '' };
const PLACES = Number(process.env['F42_PLACES'] ?? (FULL ? 30 : 8));
/** Places where a defect once left a call without an answer, or with a wrong outcome. */
const FOUND = [
  'concurrency-limiter ConcurrencyLimiter.leave',
  'fast-path-connection FastPathConnection.answered',
  'supervisor Supervisor.markHealthy',
  'call Call.answered',
  'dispatcher Dispatcher.answered',
  'connection-use ConnectionUse.answered',
];
const TIMEOUT_MS = 3_000;
/** Far beyond every deadline, also on a busy machine. */
const PATIENCE_MS = 60_000;

/** A server that a defect has put out of service comes back by a restart, and by nothing else. */
async function restarted(bench: FaultBench, server: string): Promise<void> {
  if ((await bench.status(server)).state !== 'defect') return;
  await bench.gateway.control(`/api/v1/servers/${server}/restart`, 'POST');
  await bench.gateway.ready(server);
}

test(`fault:F42 a defect in each of ${PLACES} places that calls pass: every call ends, the gateway exits with 70 or continues, nothing is lost`, async (t) => {
  const seed = Number(process.env['F42_SEED'] ?? (FULL ? Date.now() % 2 ** 31 : 42));
  t.diagnostic(`seed ${seed}`);
  const random = new Seeded(seed);
  const bench = new FaultBench(t);
  const file = join(bench.folder, 'failpoint');
  const servers = { one: bench.stdio('one', 'stateful', { isolation: 'shared', timeoutMs: TIMEOUT_MS }) };
  const start = async (): Promise<void> => {
    const env = { ...FAILING, FAILPOINT_FILE: file };
    await bench.start(servers, { log: { level: 'warn' } }, env);
    await bench.gateway.ready();
  };
  let made = 0;
  /** Calls of clients of both eras; each call ends with an outcome, or with the gateway. */
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
  // Only the places that this second round passes, without those of the start.
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
    // A defect that no code caught ends the process, after the calls in flight.
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
        if (!ended) await restarted(bench, 'one').catch(() => {});
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

/** The files whose code works for one server at a time; the set of all servers does not. */
const OF_ONE_SERVER = new Set(
  globSync('{upstream,http/client}/**/*.ts', { cwd: join(import.meta.dirname, '../../src') }).map((path) =>
    basename(path, '.ts'),
  ),
);
OF_ONE_SERVER.delete('upstream-set');
/** In a callback of a pipe, of a socket, of a timer, of a promise, and of the start itself. */
const EDGES = [
  'line-splitter LineSplitter.push',
  'server-messages ServerMessages.take',
  'response-parser ResponseParser.push',
  'resolver Resolver.resolve',
  'supervisor Supervisor.restart',
  'upstream-parts UpstreamParts.launch',
  'server-observer ServerObserver.status',
];

test(`fault:F42 a defect in each of ${PLACES} places of the work for one server: no process ends, no other server is affected, a restart brings it back`, async (t) => {
  const random = new Seeded(Number(process.env['F42_SEED'] ?? (FULL ? Date.now() % 2 ** 31 : 42)));
  const bench = new FaultBench(t);
  const file = join(bench.folder, 'failpoint');
  const remote = await LedgerHttpProcess.start(bench.ledger('remote'), 'stateful');
  t.after(() => remote.kill());
  writeFileSync(file, '');
  const more = { isolation: 'shared', timeoutMs: TIMEOUT_MS };
  const servers = {
    one: bench.stdio('one', 'stateful', more),
    remote: { ...more, type: 'http', url: `http://localhost:${remote.port}/mcp` },
  };
  const env = { ...FAILING, FAILPOINT_FILE: file };
  await bench.start(servers, { log: { level: 'info' } }, env);
  await bench.gateway.ready();
  const client = await bench.opened('client');
  const tell = async (place: string, answer: string): Promise<void> => {
    rmSync(answer, { force: true });
    writeFileSync(file, place);
    bench.gateway.process.kill('SIGUSR2');
    await until(answer, () => existsSync(answer));
  };
  /** What servers do: calls, lists, starts, look-ups of their status. */
  const work = async (server: string): Promise<number> => {
    const calls = await Promise.all([client.call(`${server}__unsafe`), client.call(`${server}__slow`, { ms: 20 })]);
    await bench.gateway.control(`/api/v1/servers/${server}`).catch(() => {});
    return calls.filter(({ ending }) => ending === 'RESULT').length;
  };
  const defects = async (server: string): Promise<number> =>
    (await bench.status(server)).history.filter(({ to }) => to === 'defect').length;
  for (const name of ['one', 'remote']) {
    await bench.gateway.control(`/api/v1/servers/${name}/restart`, 'POST');
    await bench.gateway.ready(name);
    await work(name);
  }
  await tell('', `${file}.seen`);
  const seen = readFileSync(`${file}.seen`, 'utf8')
    .split('\n')
    .filter((place) => OF_ONE_SERVER.has(place.split(' ')[0]!));
  for (const place of EDGES) assert.ok(seen.includes(place), `${place} is gone: name another like it`);
  const queue = [...EDGES];
  const others = seen.filter((place) => !EDGES.includes(place));
  while (others.length > 0) queue.push(...others.splice(random.below(others.length), 1));
  const ends = { defect: 0, 'went on': 0 };
  for (const place of queue.slice(0, Math.max(PLACES, EDGES.length))) {
    for (const [hit, excepted] of [
      ['one', 'remote'],
      ['remote', 'one'],
    ] as const) {
      const before = await Promise.all([defects(hit), defects(excepted)]);
      rmSync(`${file}.met`, { force: true });
      await tell(place, `${file}.armed`);
      // Until the place is met, only the server that is to be hit works.
      await work(hit);
      await bench.gateway.control(`/api/v1/servers/${hit}/restart`, 'POST').catch(() => {});
      await work(hit);
      const met = existsSync(`${file}.met`);
      await tell('nowhere', `${file}.armed`);
      assert.equal(bench.gateway.process.exitCode, null, `${place}\n${bench.gateway.stderr.slice(-2_000)}`);
      assert.equal(await work(excepted), 2, `${place} of ${hit}: calls to ${excepted}`);
      if (!met) continue;
      await until(
        `${hit} serves after ${place}`,
        async () => {
          await restarted(bench, hit);
          return (await client.call(`${hit}__unsafe`)).ending === 'RESULT';
        },
        60_000,
      );
      const after = await Promise.all([defects(hit), defects(excepted)]);
      assert.equal(after[1], before[1], `${place} of ${hit}: ${excepted} was put out of service`);
      ends[after[0]! > before[0]! ? 'defect' : 'went on']++;
    }
  }
  t.diagnostic(JSON.stringify(ends));
  assert.ok(ends.defect >= 3, JSON.stringify(ends));
  assert.match(bench.gateway.stderr, /"event":"server_defect".*planted defect.*\\n +at /);
  assert.equal(await bench.gateway.stop(), 0);
});

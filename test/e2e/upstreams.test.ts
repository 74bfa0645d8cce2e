import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { transports } from '../../src/app/transports.ts';
import { systemClock } from '../../src/model/clock.ts';
import type { OwnedProcess, Ownership } from '../../src/model/ports.ts';
import { systemRandom } from '../../src/model/random.ts';
import type { Server } from '../../src/model/server.ts';
import { result } from '../../src/protocol/compose.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { UpstreamSet } from '../../src/upstream/upstream-set.ts';
import { startConformanceServer } from '../fixtures/conformance/http.ts';
import { LegacySseServer } from '../fixtures/http/legacy-sse.ts';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { MARK, processCount, survivors } from '../support/processes.ts';
import { RecordingGuard, stdioSpec } from '../support/stdio-bench.ts';
import { answerText, clientOf, Remembered, serverOf, toolCall, UpstreamBench } from '../support/upstream-bench.ts';

const bin = (name: string) => join(import.meta.dirname, '../../node_modules/.bin', name);
const client = clientOf('one', '{"roots":{}}');

function real(
  name: string,
  args: readonly string[],
  env: Record<string, string> = {},
  changes: Partial<Server> = {},
): Server {
  const inheritEnv = ['PATH', 'HOME'];
  return serverOf(name, { transport: stdioSpec(bin(`mcp-server-${name}`), args, { env, inheritEnv }), ...changes });
}

function overHttp(name: string, url: string): Server {
  return serverOf(name, { transport: { type: 'http', url, sseFallback: true, headers: {}, tls: {} } });
}

interface Running {
  readonly set: UpstreamSet;
  readonly mark: string;
  readonly events: UpstreamBench['events'];
}

/** A set over real servers; at the end of the test no process of them may be left. */
async function running(
  t: TestContext,
  make: (env: Record<string, string>) => readonly Server[],
  remembered = new Remembered(),
  ownership?: Ownership,
): Promise<Running> {
  const mark = randomUUID();
  const { events } = new UpstreamBench();
  const logger = Logger.silent();
  const guard = new RecordingGuard();
  events.answer = (asked) => Promise.resolve(result(asked.id, '{"roots":[]}', 'stateful'));
  const set = new UpstreamSet({
    clock: systemClock,
    random: systemRandom,
    logger,
    metrics: new Metrics(),
    events,
    ...remembered.opened(),
    openTransport: transports({
      clock: systemClock,
      random: systemRandom,
      logger,
      guard,
      env: process.env,
      owner: 'test',
      memoryServers: new Map(),
    }),
    maxProcesses: 32,
    ownership,
  });
  t.after(async () => {
    await set.close('shutdown');
    assert.deepEqual(await survivors(mark, 10_000), []);
  });
  await set.apply(new Map(make({ [MARK]: mark }).map((server) => [server.name, server])));
  set.start();
  return { set, mark, events };
}

function call(set: UpstreamSet, server: string, params: object, session = client) {
  const exchange = toolCall(session, JSON.stringify(params));
  return set.call(server, exchange.request, exchange);
}

test('S2.9 check:B1 real servers over stdio: listed, called, and gone at the end', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'upstreams-'));
  t.after(() => rm(folder, { recursive: true }));
  const { set } = await running(t, (env) => [
    real('everything', [], env, { start: 'eager' }),
    real('memory', [], { ...env, MEMORY_FILE_PATH: join(folder, 'memory.json') }),
    real('filesystem', [folder], env),
  ]);
  const [everything, memory, filesystem] = await Promise.all(
    ['everything', 'memory', 'filesystem'].map((name) => set.catalog(name, client, 30_000)),
  );
  for (const [catalog, tool] of [
    [everything, 'echo'],
    [memory, 'read_graph'],
    [filesystem, 'list_directory'],
  ] as const) {
    assert.ok(
      catalog?.lists.tools.items.some((item) => item.key === tool),
      tool,
    );
  }
  assert.ok(everything!.lists.prompts.items.length > 0 && everything!.lists.resources.items.length > 0);
  const said = await call(set, 'everything', { name: 'echo', arguments: { message: 'hello there' } });
  assert.match(answerText(said), /hello there/);
  assert.match(answerText(await call(set, 'memory', { name: 'read_graph', arguments: {} })), /entities/);
  assert.match(
    answerText(await call(set, 'filesystem', { name: 'list_directory', arguments: { path: folder } })),
    /"content"/,
  );
  assert.deepEqual(
    set.statuses().map(({ name, state }) => [name, state]),
    [
      ['everything', 'running'],
      ['filesystem', 'running'],
      ['memory', 'running'],
    ],
  );
});

test('fault:F02 fault:F03 a killed process comes back, and calls after it succeed', async (t) => {
  const { set, mark } = await running(t, (env) => [real('everything', [], env)]);
  answerText(await call(set, 'everything', { name: 'echo', arguments: { message: '0' } }));
  for (let i = 1; i <= 3; i++) {
    const { pid } = set.status('everything')!.connections[0]!;
    process.kill(-pid!, 'SIGKILL');
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, () => call(set, 'everything', { name: 'echo', arguments: { message: `${i}` } })),
    );
    // What was written before the death was noticed may be unknown; nothing else may fail.
    for (const outcome of outcomes) if (outcome.kind === 'failure') assert.equal(outcome.error.outcome, 'UNKNOWN');
    assert.match(
      answerText(await call(set, 'everything', { name: 'echo', arguments: { message: `${i}` } })),
      /echo|Echo/,
    );
  }
  assert.equal(await processCount(mark, 1, 10_000), 1);
  assert.equal(set.status('everything')?.state, 'running');
});

test('fault:F31 a call of a process that goes to another node before the write is not written to it', async (t) => {
  /** How often `isHeld` is still true. */
  let held = Number.POSITIVE_INFINITY;
  const owned: OwnedProcess = {
    epoch: 'abc.1',
    get isHeld() {
      return held-- > 0;
    },
    assignTo() {},
    ready() {},
    ending() {},
    release() {},
  };
  const ownership = { acquire: async () => owned, mayAdopt: () => true, onLeaseAcquired: () => null };
  const { set } = await running(t, (env) => [real('everything', [], env)], undefined, ownership);
  answerText(await call(set, 'everything', { name: 'echo', arguments: { message: 'first' } }));
  held = 1; // The node owns it when the call is sent, and not when it is written.
  const begun = call(set, 'everything', { name: 'echo', arguments: { message: 'second' } });
  // In the turn of the write, before a timer can report the loss of the lease: the call would be UNKNOWN.
  const outcome = await Promise.race([begun, new Promise<null>((done) => setImmediate(done, null))]);
  assert.ok(outcome?.kind === 'failure');
  assert.equal(outcome.error.outcome, 'NOT_SENT');
  assert.match(outcome.error.message, /does not own the process of everything/);
  assert.equal(set.status('everything')?.state, 'running');
  held = Number.POSITIVE_INFINITY;
  answerText(await call(set, 'everything', { name: 'echo', arguments: { message: 'third' } }));
});

test('check:B4 a server over Streamable HTTP in either era, and one of 2024-11-05 with the same definition', async (t) => {
  const old = await startConformanceServer('stateful');
  const modern = await startConformanceServer('stateless');
  const ancient = await LegacySseServer.start();
  t.after(() => Promise.all([old.close(), modern.close(), ancient.stop()]));
  const { set } = await running(t, () => [
    overHttp('old', old.url),
    overHttp('modern', modern.url),
    overHttp('ancient', ancient.url),
  ]);
  for (const name of ['old', 'modern']) {
    assert.ok((await set.catalog(name, client, 20_000))!.lists.tools.items.length > 3, name);
    assert.match(answerText(await call(set, name, { name: 'test_simple_text', arguments: {} })), /"content"/);
  }
  assert.match(answerText(await call(set, 'ancient', { name: 'echo', arguments: { text: 'hi' } })), /hi/);
  assert.deepEqual(
    set.statuses().map(({ name, era }) => [name, era]),
    [
      ['ancient', 'stateful'],
      ['modern', 'stateless'],
      ['old', 'stateful'],
    ],
  );
});

test('S2.26 fault:F01 a command that does not exist: failed within a second, with the cause, others unaffected', async (t) => {
  const { set } = await running(t, (env) => [
    serverOf('nowhere', { start: 'eager', transport: stdioSpec('/no/such/command') }),
    real('everything', [], env, { start: 'eager' }),
  ]);
  await sleep(1_000);
  const status = set.status('nowhere')!;
  assert.equal(status.state, 'failed');
  assert.match(status.reason!, /no\/such\/command/);
  const outcome = await call(set, 'nowhere', { name: 'x' });
  assert.ok(outcome.kind === 'failure' && outcome.error.outcome === 'NOT_SENT');
  answerText(await call(set, 'everything', { name: 'echo', arguments: { message: 'x' } }));
});

test('S2.26 a process that refuses initialize is failed with its message, and nothing of it keeps running', async (t) => {
  const refusing = `
    require('node:child_process').spawn('sleep', ['1000'], { stdio: 'ignore' });
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id } = JSON.parse(line);
      const error = { code: -32603, message: 'the license has expired' };
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, error }));
    });`;
  const { set, mark } = await running(t, (env) => [
    serverOf('expired', {
      start: 'eager',
      transport: stdioSpec(process.execPath, ['-e', refusing], { env, inheritEnv: ['PATH'] }),
    }),
  ]);
  for (let i = 0; i < 200 && set.status('expired')?.state !== 'failed'; i++) await sleep(50);
  const status = set.status('expired')!;
  assert.equal(status.state, 'failed');
  assert.match(status.reason!, /the license has expired/);
  assert.deepEqual(status.connections, []);
  // It is started again after a second; no attempt leaves a process.
  assert.equal(await processCount(mark, 0, 10_000), 0);
});

test('fault:F01 a process that exits at start: its code and the end of its output are in the status', async (t) => {
  const script = 'echo "cannot find the frobnicator" >&2; exit 7';
  const { set } = await running(t, () => [
    serverOf('broken', { start: 'eager', transport: stdioSpec('sh', ['-c', script]) }),
  ]);
  for (let i = 0; i < 100 && set.status('broken')?.state !== 'failed'; i++) await sleep(50);
  const status = set.status('broken')!;
  assert.deepEqual([status.state, status.lastExit?.code], ['failed', 7]);
  assert.match(status.stderrTail, /frobnicator/);
});

test('fault:F22 check:B4 the next process continues an HTTP session, and opens a new one when the server forgot it', async (t) => {
  const server = await StatefulServer.start();
  t.after(() => server.stop());
  const remembered = new Remembered();
  const definitions = () => [overHttp('a', server.url)];
  const echo = { name: 'echo', arguments: { text: 'hi' } };
  const initialized = () => server.stage.requests.filter(({ body }) => body.includes('"initialize"')).length;

  const first = await running(t, definitions, remembered);
  assert.match(answerText(await call(first.set, 'a', echo)), /hi/);
  await first.set.close('shutdown');
  const before = initialized();

  const second = await running(t, definitions, remembered);
  assert.match(answerText(await call(second.set, 'a', echo)), /hi/);
  assert.equal(initialized(), before);

  server.forgetSessions();
  assert.match(answerText(await call(second.set, 'a', echo)), /hi/);
  assert.equal(initialized(), before + 1);
  assert.deepEqual(second.events.lost, ['one']);
});

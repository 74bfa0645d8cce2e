import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import {
  ScriptedServer,
  SILENCE,
  scriptedTool,
  statefulScript,
  statefulServer,
} from '../../../test/support/scripted-server.ts';
import { stillRandom } from '../../../test/support/still-random.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Attempt } from '../connection/attempt.ts';
import { canTransition } from './state-machine.ts';
import { RESTART_GRACE_MS, Supervisor } from './supervisor.ts';

const refused = () => new GatewayError('NOT_SENT', 'spawn nowhere ENOENT');
const eager = (name: string) => serverOf(name, { start: 'eager' });

/** Attempts, by the second after the start in which they were made. */
function attemptsAt(script: ScriptedServer, bench: UpstreamBench, start: number): number[] {
  const seconds: number[] = [];
  const open = script.open.bind(script);
  script.open = (kind) => {
    seconds.push(Math.round((bench.clock.now() - start) / 1000));
    return open(kind);
  };
  return seconds;
}

test('fault:F01 a local process that dies at its start: failed with a reason, attempts at 0, 1, 3, 33, 93 s', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.openFails = refused();
  const at = attemptsAt(script, bench, bench.clock.now());
  const other = statefulScript();
  await bench.run([eager('a'), script], [eager('b'), other]);
  assert.equal(bench.set.status('a')?.state, 'failed');
  assert.match(bench.set.status('a')?.reason ?? '', /ENOENT/);
  assert.equal(bench.set.status('b')?.state, 'running');
  await bench.clock.advance(120_000);
  assert.deepEqual(at, [0, 1, 3, 33, 93]);
  assert.equal(bench.set.status('a')?.consecutiveFailures, 5);
  assert.equal(bench.set.status('a')?.nextRetryAt, bench.clock.wall() - 120_000 + 213_000);
});

test('fault:F01 calls to a failed server share one early attempt, at most every 5 s, and are NOT_SENT', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.openFails = refused();
  await bench.run([eager('a'), script]);
  await bench.clock.advance(3_000);
  const before = script.links.length;
  const outcomes = Array.from({ length: 5 }, (_, i) => bench.call('a', toolCall(clientOf(`s${i}`))));
  for (const outcome of outcomes) {
    const error = failureOf(await outcome);
    assert.deepEqual([error.code, error.data.sent, error.data.retryable], ['NOT_SENT', false, true]);
    assert.ok(error.data.retryAfterMs! > 0);
  }
  assert.equal(script.links.length, before + 1);
  failureOf(await bench.call('a', toolCall(clientOf('s'))));
  assert.equal(script.links.length, before + 1);
  // The early attempt does not postpone the planned one.
  assert.equal(bench.set.status('a')?.consecutiveFailures, 3);
  script.openFails = null;
  await bench.clock.advance(5_000);
  answerText(await bench.call('a', toolCall(clientOf('s'))));
  assert.equal(bench.set.status('a')?.state, 'running');
});

test('fault:F01 S3.1 S3.2 a remote server waits 30 s, 60 s, then is unreachable: NOT_SENT at once with retryAfterMs', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.openFails = refused();
  const at = attemptsAt(script, bench, bench.clock.now());
  await bench.run([httpServerOf('a', { start: 'eager' }), script]);
  assert.equal(bench.set.status('a')?.state, 'failed');
  await bench.clock.advance(90_000);
  assert.deepEqual(at, [0, 30, 90]);
  assert.equal(bench.set.status('a')?.state, 'unreachable');
  const error = failureOf(await bench.call('a', toolCall(clientOf('s'))));
  assert.equal(error.data.retryAfterMs, 120_000);
  assert.equal(at.length, 3);
  script.openFails = null;
  await bench.clock.advance(120_000);
  assert.equal(bench.set.status('a')?.state, 'connected');
  assert.equal(bench.set.status('a')?.consecutiveFailures, 0);
});

test('fault:F02 a call whose process died before the write goes to the fresh process, and its caller does not notice', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const client = clientOf('s');
  answerText(await bench.call('a', toolCall(client)));
  const held = script.handlers['tools/call']!;
  script.handlers['tools/call'] = (params, link, id) => {
    if (link.number > 1) return held(params, link, id);
    link.end({ kind: 'exited', code: null, signal: 'SIGKILL' }, 'NOT_SENT');
    return SILENCE;
  };
  answerText(await bench.call('a', toolCall(client)));
  assert.equal(script.links.length, 2);
  // And the next call: the gateway noticed the death before it.
  script.last.end();
  answerText(await bench.call('a', toolCall(client)));
  assert.equal(script.links.length, 3);
});

test('fault:F03 a process that dies during a call: UNKNOWN at once, restart at once, and the session is notified', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), slow: () => SILENCE });
  await bench.run([serverOf('a'), script]);
  const client = clientOf('s');
  answerText(await bench.call('a', toolCall(client)));
  script.handlers['tools/call'] = () => SILENCE;
  const outcome = bench.call('a', toolCall(client));
  await settled();
  script.last.end({ kind: 'exited', code: 3, signal: null });
  const error = failureOf(await outcome);
  assert.deepEqual([error.code, error.data.outcome, error.data.retryable], ['UNKNOWN', 'UNKNOWN', false]);
  await settled();
  assert.equal(script.links.length, 2);
  assert.equal(script.links[0]!.count('tools/call') + script.last.count('tools/call'), 2);
  assert.deepEqual(bench.events.lost, ['s']);
  assert.equal(bench.set.ownsConnection('a', client), true);
  const status = bench.set.status('a')!;
  assert.deepEqual([status.state, status.restarts, status.lastExit?.code], ['running', 1, 3]);
});

test('fault:F03 the gateway repeats a sent call only where the operator allows it', async () => {
  const idempotent = { ...scriptedTool('echo'), annotations: { idempotentHint: true } };
  const cases = [
    { changes: {}, again: false },
    { changes: { retry: 'always' as const }, again: true },
    { changes: { retry: 'hints' as const }, again: false },
    { changes: { retry: 'hints' as const, trusted: true }, again: true },
  ];
  for (const { changes, again } of cases) {
    const bench = new UpstreamBench();
    const script = new ScriptedServer(statefulServer([idempotent, scriptedTool('other')]));
    await bench.run([serverOf('a', changes), script]);
    await bench.set.catalog('a', clientOf('s'), 1000);
    const run = script.handlers['tools/call']!;
    script.handlers['tools/call'] = (params, link, id) => {
      if (link.number > 1) return run(params, link, id);
      link.end();
      return SILENCE;
    };
    const outcome = await bench.call('a', toolCall(clientOf('s')));
    assert.equal(outcome.kind, again ? 'answer' : 'failure', JSON.stringify(changes));
  }
});

test('fault:F04 an answer that arrived before the death is delivered', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.handlers['tools/call'] = (_params, link, id) => {
    link.respond(id, { done: true });
    link.end();
    return SILENCE;
  };
  await bench.run([serverOf('a'), script]);
  assert.match(answerText(await bench.call('a', toolCall(clientOf('s')))), /"done":true/);
});

test('a process that dies right after every start is not restarted in a loop', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.handlers['tools/list'] = (_params, link) => {
    link.end();
    return SILENCE;
  };
  const at = attemptsAt(script, bench, bench.clock.now());
  await bench.run([eager('a'), script]);
  await bench.clock.advance(120_000);
  assert.deepEqual(at, [0, 1, 3, 33, 93]);
});

test('fault:F23 fault:F24 a remote server that three calls could not reach is down until it returns', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a'), script]);
  const client = clientOf('s');
  answerText(await bench.call('a', toolCall(client)));
  const answering = script.handlers['tools/call']!;
  let sent = 0;
  script.handlers['tools/call'] = (_params, link, id) => {
    sent++;
    link.lose(id, 'NOT_SENT');
    return SILENCE;
  };
  script.openFails = refused();
  assert.equal(failureOf(await bench.call('a', toolCall(client))).code, 'NOT_SENT');
  assert.equal(sent, 3);
  await settled();
  assert.equal(bench.set.status('a')?.state, 'failed');
  script.handlers['tools/call'] = answering;
  script.openFails = null;
  await bench.clock.advance(30_000);
  answerText(await bench.call('a', toolCall(client)));
});

test('fault:F23 a server may ask for a delay of up to 30 s; the repeated call after it succeeds', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const run = script.handlers['tools/call']!;
  let refusals = 0;
  script.handlers['tools/call'] = (params, link, id) => {
    if (refusals++ > 0) return run(params, link, id);
    link.lose(id, 'NOT_SENT', new GatewayError('OVERLOADED', '429', { retryAfterMs: 2_000 }));
    return SILENCE;
  };
  await bench.run([httpServerOf('a'), script]);
  const outcome = bench.call('a', toolCall(clientOf('s')));
  await settled();
  await bench.clock.advance(1_999);
  assert.equal(script.last.count('tools/call'), 1);
  await bench.clock.advance(1);
  answerText(await outcome);
});

test('restart waits 200 ms between stop and start, joins a restart in progress, and takes calls meanwhile', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('s'))));
  const restarts = [bench.set.restart('a'), bench.set.restart('a')];
  await settled();
  assert.equal(bench.set.status('a')?.state, 'stopped');
  assert.equal(script.live.length, 0);
  const outcome = bench.call('a', toolCall(clientOf('s')));
  await bench.clock.advance(199);
  assert.equal(script.links.length, 1);
  await bench.clock.advance(1);
  await Promise.all(restarts);
  answerText(await outcome);
  assert.equal(script.links.length, 2);
});

test('if a restart cancels a start, the call and the list that wait for it wait for the next start', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const { initialize } = script.handlers;
  script.handlers['initialize'] = () => SILENCE;
  await bench.run([eager('a'), script]);
  const client = clientOf('s');
  const outcome = bench.call('a', toolCall(client));
  const listed = bench.set.catalog('a', client, 60_000, true);
  await settled();
  script.handlers['initialize'] = initialize!;
  const restarted = bench.set.restart('a');
  await settled();
  await bench.clock.advance(RESTART_GRACE_MS);
  await restarted;
  answerText(await outcome);
  assert.equal((await listed)?.lists.tools.items.length, 1);
});

test('a stop ends a start in progress: no process is left and none starts later', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const { initialize } = script.handlers;
  script.handlers['initialize'] = () => SILENCE;
  await bench.run([eager('a'), script]);
  assert.equal(bench.set.status('a')?.state, 'starting');
  const closed = bench.set.close('shutdown');
  const { last } = script;
  last.respond(last.lastOf('initialize').id as number, initialize!({}, last, 0));
  await closed;
  await bench.clock.advance(60_000);
  assert.equal(script.live.length, 0);
  assert.equal(script.links.length, 1);
  assert.equal(bench.set.status('a')?.state, 'stopped');
});

test('W2.3 W4.1 a start continues if the call that caused it is cancelled', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const { initialize } = script.handlers;
  script.handlers['initialize'] = () => SILENCE;
  await bench.run([serverOf('a'), script]);
  const exchange = toolCall(clientOf('s'));
  const outcome = bench.call('a', exchange);
  await settled();
  exchange.cancel('gone');
  const error = failureOf(await outcome);
  assert.deepEqual([error.code, error.outcome], ['CANCELLED', 'NOT_SENT']);
  const { last } = script;
  last.respond(last.lastOf('initialize').id as number, initialize!({}, last, 0));
  await settled();
  assert.equal(bench.set.status('a')?.state, 'running');
  assert.equal(last.state, 'open');
  assert.equal(last.count('tools/call'), 0);
});

test('S3.20 the state machine refuses illegal steps and takes legal ones', () => {
  assert.ok(
    canTransition('unknown', 'starting') &&
      canTransition('starting', 'running') &&
      canTransition('running', 'degraded'),
  );
  assert.ok(
    !canTransition('stopped', 'running') &&
      !canTransition('stopping', 'starting') &&
      !canTransition('suspended', 'running'),
  );
});

test('a start requested during a stop follows it, unless another stop came later', async () => {
  const halts: (() => void)[] = [];
  const halted = () => {
    for (const resolve of halts.splice(0)) resolve();
  };
  const supervisor = new Supervisor(
    {
      server: 'a',
      local: true,
      clock: new FakeClock(),
      random: stillRandom(),
      times: { startupMs: 1000 },
    },
    {
      launch: () => Promise.resolve(),
      halt: () => new Promise((resolve) => void halts.push(resolve)),
      moved: () => {},
    },
  );
  await supervisor.start();
  void supervisor.stop();
  const started = supervisor.start();
  assert.equal(supervisor.state, 'stopping');
  halted();
  await started;
  assert.equal(supervisor.state, 'running');
  void supervisor.stop();
  const refused = supervisor.start();
  const stopped = supervisor.stop('suspended');
  halted();
  await Promise.all([refused, stopped]);
  assert.equal(supervisor.state, 'suspended');
});

test('calls that wait for a start give it priority; a call that a failed server refused before does not', async () => {
  const clock = new FakeClock();
  const attempts: Attempt[] = [];
  const supervisor = new Supervisor(
    { server: 'a', local: true, clock, random: stillRandom(), times: { startupMs: 1000 } },
    {
      launch: async (attempt) => {
        attempts.push(attempt);
        throw refused();
      },
      halt: async () => {},
      moved: () => {},
    },
  );
  const call = { done: false, leftMs: 60_000 };
  await supervisor.start();
  assert.equal(supervisor.state, 'failed');
  supervisor.prioritize(call);
  await clock.advance(1_000);
  assert.deepEqual(
    attempts.map(({ calls }) => calls.size),
    [0, 0],
  );
  const restarted = supervisor.restart();
  supervisor.prioritize(call);
  await settled();
  await clock.advance(RESTART_GRACE_MS);
  await restarted;
  assert.deepEqual([...attempts[2]!.calls], [call]);
});

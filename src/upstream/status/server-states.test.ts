import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { statefulScript } from '../../../test/support/scripted-server.ts';
import { stillRandom } from '../../../test/support/still-random.ts';
import { httpServerOf, serverOf, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { PLAIN_AUTH } from '../../model/credentials.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { Secret } from '../../model/secret.ts';
import type { Server } from '../../model/server.ts';
import { type ServerState, UP } from '../../model/server-state.ts';
import type { Attempt } from '../connection/attempt.ts';
import { canTransition, StateMachine, type Supervised, type Transition } from '../supervision/state-machine.ts';
import { Supervisor } from '../supervision/supervisor.ts';

const STATES: readonly ServerState[] = [
  'unknown',
  'starting',
  'running',
  'connected',
  'stopping',
  'stopped',
  'disconnected',
  'degraded',
  'failed',
  'unreachable',
  'auth_required',
  'suspended',
];

const passing = () => new GatewayError('NOT_SENT', 'connection refused');

/** A supervisor whose launches the test ends one by one, with everything it reports, in order. */
class Rig {
  readonly clock = new FakeClock();
  readonly reported: string[] = [];
  readonly moves: Transition[] = [];
  readonly launches: { readonly attempt: Attempt; up(): void; fail(error: GatewayError): void }[] = [];
  halts = 0;
  readonly supervisor: Supervisor;

  constructor(local: boolean, changes: Partial<Supervised> = {}) {
    this.supervisor = new Supervisor(
      {
        server: 'a',
        local,
        clock: this.clock,
        random: stillRandom(),
        times: { startupMs: 1000 },
      },
      {
        launch: (attempt) => {
          attempt.begin();
          return new Promise((resolve, reject) => void this.launches.push({ attempt, up: resolve, fail: reject }));
        },
        halt: async () => void this.halts++,
        moved: (transition) => {
          this.moves.push(transition);
          this.reported.push(transition.to);
        },
        recovery: (step) => void this.reported.push(`recovery ${step}`),
        ...changes,
      },
    );
  }

  async up(): Promise<void> {
    void this.supervisor.start();
    await settled();
    this.launches.at(-1)!.up();
    await settled();
  }

  async fail(error: GatewayError): Promise<void> {
    await settled();
    this.launches.at(-1)!.fail(error);
    await settled();
  }
}

test('S3.20 check:A5 every step that the table lacks is refused and changes nothing; every other step is taken', () => {
  let refused = 0;
  for (const from of STATES) {
    for (const to of STATES) {
      const moves: Transition[] = [];
      const machine = new StateMachine('a', new FakeClock(), { moved: (move) => void moves.push(move) });
      for (const step of wayTo(from)) machine.move(step);
      moves.length = 0;
      if (from !== to && !canTransition(from, to)) {
        refused++;
        assert.throws(() => machine.move(to), new RegExp(`no way from ${from} to ${to}`));
        assert.equal(machine.state, from);
        assert.deepEqual(moves, []);
      } else {
        machine.move(to);
        assert.equal(machine.state, to);
        assert.equal(moves.length, from === to ? 0 : 1);
      }
    }
  }
  assert.ok(refused > 80, `${refused}`);
  // Only a start leads to an up state, and no start begins while the server stops.
  for (const from of STATES) {
    for (const to of STATES.filter((state) => UP.has(state)))
      assert.equal(canTransition(from, to), from === 'starting', `${from} ${to}`);
    assert.equal(canTransition('stopping', from), ['stopped', 'disconnected', 'suspended'].includes(from));
  }
});

/** The shortest way from the first state. */
function wayTo(target: ServerState): ServerState[] {
  const ways = new Map<ServerState, ServerState[]>([['unknown', []]]);
  for (const [at, way] of ways) {
    for (const next of STATES) if (canTransition(at, next) && !ways.has(next)) ways.set(next, [...way, next]);
  }
  return ways.get(target)!;
}

test('S3.6 S3.20 the first state is unknown; a listener gets each step once, in order, with its reason', () => {
  const clock = new FakeClock();
  const heard: string[] = [];
  const machine: StateMachine = new StateMachine('a', clock, {
    moved: ({ from, to, reason, failure, at }) => {
      heard.push(`${from} ${to} ${reason} ${failure} ${at - clock.wall()}`);
      // A step that a listener causes is reported after the step that it reacts to.
      if (to === 'failed') machine.move('starting');
      heard.push(`end of ${to}`);
    },
  });
  assert.equal(machine.state, 'unknown');
  machine.move('starting');
  machine.move('starting');
  machine.move('failed', passing());
  assert.deepEqual(heard, [
    'unknown starting null null 0',
    'end of starting',
    'starting failed connection refused transient 0',
    'end of failed',
    'failed starting connection refused transient 0',
    'end of starting',
  ]);
});

test('S3.5 the hook runs before the state is auth_required, once per request', async () => {
  const seen: string[] = [];
  const rig = new Rig(false, {
    moved: ({ to }) => void seen.push(to),
    beforeAuthRequired: (error) => void seen.push(`hook ${error.code} in ${rig.supervisor.state}`),
  });
  void rig.supervisor.start();
  await rig.fail(new GatewayError('AUTH_REQUIRED', 'a asks for credentials'));
  assert.deepEqual(seen, ['starting', 'hook AUTH_REQUIRED in starting', 'auth_required']);
  // This is not a failure, and no retry is planned.
  assert.equal(rig.supervisor.consecutiveFailures, 0);
  assert.equal(rig.supervisor.nextRetryAt, null);
  assert.equal(rig.clock.pending, 0);
  await assert.rejects(rig.supervisor.ready(), { code: 'AUTH_REQUIRED' });
  seen.length = 0;
  await rig.up();
  rig.supervisor.crashed(new GatewayError('AUTH_REQUIRED', 'a asks for credentials'));
  assert.deepEqual(seen, ['starting', 'connected', 'hook AUTH_REQUIRED in connected', 'auth_required']);
});

test('S3.7 check:A6 concurrent starts are one; success resets the count and the next attempt, not the last one', async () => {
  const rig = new Rig(false);
  const { supervisor, clock } = rig;
  assert.deepEqual([supervisor.lastAttemptAt, supervisor.nextRetryAt], [null, null]);
  const starts = [supervisor.start(), supervisor.start(), supervisor.start()];
  await rig.fail(passing());
  await Promise.all(starts);
  assert.equal(rig.launches.length, 1);
  const begunAt = clock.wall();
  assert.deepEqual([supervisor.consecutiveFailures, supervisor.lastAttemptAt], [1, begunAt]);
  assert.equal(supervisor.nextRetryAt, begunAt + 30_000);
  await clock.advance(30_000);
  rig.launches.at(-1)!.up();
  await settled();
  assert.equal(supervisor.state, 'connected');
  assert.deepEqual([supervisor.consecutiveFailures, supervisor.nextRetryAt], [0, null]);
  assert.equal(supervisor.lastAttemptAt, begunAt + 30_000);
  // Already up: nothing is begun.
  await supervisor.start();
  assert.equal(rig.launches.length, 2);
  assert.deepEqual(rig.reported, ['starting', 'failed', 'starting', 'connected']);
});

test('S3.17 check:F4 counters, last attempt and next retry follow failures, a stop and a start', async () => {
  const rig = new Rig(false);
  const { supervisor, clock } = rig;
  void supervisor.start();
  await rig.fail(passing());
  await clock.advance(30_000);
  await rig.fail(passing());
  assert.deepEqual([supervisor.consecutiveFailures, supervisor.nextRetryAt], [2, clock.wall() + 60_000]);
  const attemptAt = supervisor.lastAttemptAt;
  await supervisor.stop();
  assert.deepEqual([supervisor.lastAttemptAt, supervisor.nextRetryAt], [attemptAt, null]);
  assert.equal(clock.pending, 0);
  await clock.advance(3_600_000);
  assert.equal(rig.launches.length, 2);
});

test('S3.2 check:F3 two transient failures make a server failed, a third unreachable; a process stays failed', async () => {
  for (const local of [false, true]) {
    const rig = new Rig(local);
    const states: ServerState[] = [];
    void rig.supervisor.start();
    for (let i = 0; i < 4; i++) {
      await rig.fail(passing());
      states.push(rig.supervisor.state);
      await rig.clock.advance(rig.supervisor.nextRetryAt! - rig.clock.wall());
    }
    const third = local ? 'failed' : 'unreachable';
    assert.deepEqual(states, ['failed', 'failed', third, third]);
    assert.equal(rig.supervisor.consecutiveFailures, 4);
    rig.launches.at(-1)!.up();
    await settled();
    assert.equal(rig.supervisor.state, local ? 'running' : 'connected');
  }
});

test('S3.9 check:A4 stopping a stopped server does nothing; a remote server ends disconnected, a process stopped', async () => {
  for (const local of [true, false]) {
    const rig = new Rig(local);
    await rig.up();
    await rig.supervisor.stop();
    const end = local ? 'stopped' : 'disconnected';
    assert.deepEqual(rig.reported, ['starting', local ? 'running' : 'connected', 'stopping', end]);
    await rig.supervisor.stop();
    assert.equal(rig.halts, 1);
    assert.equal(rig.reported.length, 4);
    // Suspended and then stopped again: no process runs that would have to be ended.
    await rig.supervisor.stop('suspended');
    assert.equal(rig.supervisor.state, 'suspended');
    await rig.supervisor.stop();
    assert.equal(rig.halts, 1);
    // Neither calls nor time bring it back; a start does.
    await assert.rejects(rig.supervisor.ready(), (error: GatewayError) => !error.data.retryable);
    await rig.clock.advance(3_600_000);
    assert.equal(rig.supervisor.state, end);
    await rig.up();
    assert.ok(rig.supervisor.up);
  }
});

test('S3.9 W3.4 a stop during the start wins: it cancels the attempt, whose late success changes nothing', async () => {
  const rig = new Rig(false);
  void rig.supervisor.start();
  await settled();
  const stopped = rig.supervisor.stop();
  assert.equal(rig.launches[0]!.attempt.cancelled, true);
  rig.launches[0]!.up();
  await stopped;
  await settled();
  assert.equal(rig.supervisor.state, 'disconnected');
  assert.deepEqual(rig.reported, ['starting', 'stopping', 'disconnected']);
});

test('S3.10 S3.4 a restart: recovery started, stop, 200 ms, start, recovery succeeded; two requests are one restart', async () => {
  const rig = new Rig(true);
  await rig.up();
  rig.reported.length = 0;
  const restarts = [rig.supervisor.restart(), rig.supervisor.restart(), rig.supervisor.start()];
  await settled();
  await rig.clock.advance(199);
  assert.deepEqual(rig.reported, ['recovery started', 'stopping', 'stopped']);
  assert.equal(rig.launches.length, 1);
  await rig.clock.advance(1);
  assert.equal(rig.launches.length, 2);
  rig.launches[1]!.up();
  await Promise.all(restarts);
  assert.deepEqual(rig.reported.slice(3), ['starting', 'running', 'recovery succeeded']);
  assert.equal(rig.supervisor.restarts, 1);
  rig.reported.length = 0;
  const failed = rig.supervisor.restart();
  await settled();
  await rig.clock.advance(200);
  await rig.fail(passing());
  await failed;
  assert.deepEqual(rig.reported.slice(-2), ['failed', 'recovery failed']);
});

test('S3.4 the grace period ends at once when the server is stopped, and a start after that is no part of it', async () => {
  const rig = new Rig(true);
  await rig.up();
  const restart = rig.supervisor.restart();
  await settled();
  assert.equal(rig.clock.pending, 1);
  await rig.supervisor.stop();
  // The clock has not moved.
  await restart;
  assert.equal(rig.clock.pending, 0);
  assert.deepEqual([rig.supervisor.state, rig.launches.length], ['stopped', 1]);
  assert.equal(rig.reported.at(-1), 'recovery failed');
  await rig.up();
  await rig.clock.advance(1_000);
  assert.deepEqual([rig.supervisor.state, rig.launches.length], ['running', 2]);
});

test('S3.10 a stop while a restart still stops the server wins as well', async () => {
  const halted: (() => void)[] = [];
  const rig = new Rig(true, { halt: () => new Promise((resolve) => void halted.push(resolve)) });
  await rig.up();
  const restart = rig.supervisor.restart();
  const stop = rig.supervisor.stop('suspended');
  for (const resolve of halted) resolve();
  await Promise.all([restart, stop]);
  await rig.clock.advance(1_000);
  assert.deepEqual([rig.supervisor.state, rig.launches.length], ['suspended', 1]);
});

test('S3.18 running and connected count as up; unreachable is a state of its own', () => {
  assert.deepEqual(
    STATES.filter((state) => UP.has(state)),
    ['running', 'connected'],
  );
});

test('S3.1 W3.2 W3.3 check:F2 each server has its own timer: twenty servers that are down are all tried when due', async () => {
  const bench = new UpstreamBench();
  const scripts = Array.from({ length: 20 }, () => statefulScript());
  for (const script of scripts) script.openFails = passing();
  await bench.run(
    ...scripts.map((script, i) => {
      const changes = { start: 'eager' } as const;
      const name = `s${i}`;
      return [i % 2 === 0 ? httpServerOf(name, changes) : serverOf(name, changes), script] as const;
    }),
  );
  for (let i = 0; i < 20; i++) await settled();
  const attempts = () => scripts.map(({ links }) => links.length);
  assert.deepEqual(attempts(), Array(20).fill(1));
  // Processes at 1, 3 and 33 s, remote servers at 30 s: none waits for a round of others.
  await bench.clock.advance(29_999);
  assert.deepEqual(
    attempts(),
    scripts.map((_, i) => (i % 2 === 0 ? 1 : 3)),
  );
  await bench.clock.advance(1);
  assert.deepEqual(
    attempts(),
    scripts.map((_, i) => (i % 2 === 0 ? 2 : 3)),
  );
});

test('S3.16 the status says where the credentials of a server come from', async () => {
  const bench = new UpstreamBench();
  const transports: Record<string, object> = {
    plain: {},
    static: { headers: { 'X-Api-Key': new Secret('a key of the service') } },
    oauth: { auth: PLAIN_AUTH },
    program: { auth: { ...PLAIN_AUTH, exec: {} } },
  };
  const servers = Object.entries(transports).map(([name, changes]) => {
    const server = httpServerOf(name);
    return [{ ...server, transport: { ...server.transport, ...changes } } as Server, statefulScript()] as const;
  });
  await bench.run(...servers);
  const kinds = servers.map(([{ name }]) => bench.set.status(name)!.definition.auth);
  assert.deepEqual(kinds, [null, 'static', 'oauth', 'program']);
});

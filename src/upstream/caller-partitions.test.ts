import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import { agent } from '../../test/support/gateway-bench.ts';
import { ScriptedServer, SILENCE, scriptedTool, statelessServer } from '../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  httpServerOf,
  Remembered,
  toolCall,
  UpstreamBench,
} from '../../test/support/upstream-bench.ts';
import type { Principal } from '../model/client-profile.ts';
import { POOL_DEFAULTS } from '../model/desired-state.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Server } from '../model/server.ts';
import { newServerEvents } from '../telemetry/server-events.ts';

/** More than the maximum of partitions of one server. */
const VALUES = 1_100;
const [ada, bob] = [agent('ada', 'web'), agent('bob', 'web')];

function webOf(changes: Partial<Server> = {}): Server {
  return httpServerOf('web', {
    callerSeparation: { credentials: false, headers: { 'x-team': 'X-Tenant' } },
    ...changes,
  });
}

class Scene {
  readonly remembered = new Remembered();
  readonly bench = new UpstreamBench({ times: { drainMs: 1_000 }, remembered: this.remembered });
  readonly script = new ScriptedServer(statelessServer([scriptedTool('echo')]));

  get opened(): number {
    return this.script.links.length;
  }

  run(server = webOf()): Promise<void> {
    return this.bench.run([server, this.script]);
  }

  apply(server: Server): Promise<void> {
    return this.bench.set.apply(new Map([[server.name, server]]));
  }

  call(principal: Principal, team: string): Promise<Outcome> {
    return this.bench.call('web', toolCall(clientOf(null, '{}', { principal, forwarded: { 'x-team': team } })));
  }
}

test('goal:G18 a caller with ever new header values is served, and closes no partition of another caller', async () => {
  const scene = new Scene();
  await scene.run();
  answerText(await scene.call(bob, 'bob'));
  const first = scene.opened;
  for (let i = 0; i < VALUES; i++) answerText(await scene.call(ada, `team-${i}`));
  assert.equal(scene.opened, first + VALUES);
  answerText(await scene.call(bob, 'bob'));
  assert.equal(scene.opened, first + VALUES, 'the partition of the other caller is still open');
  answerText(await scene.call(ada, 'team-0'));
  assert.equal(scene.opened, first + VALUES + 1, 'the oldest partition of the same caller was closed');
  assert.equal(scene.remembered.file.all('era').size, 1, 'the era is stored once, for the server');
});

test('goal:G18 simultaneous calls with more values than a server may have partitions are all answered', async () => {
  const scene = new Scene();
  await scene.run();
  const calls = Array.from({ length: VALUES }, (_, i) => scene.call(ada, `team-${i}`));
  for (const outcome of await Promise.all(calls)) answerText(outcome);
});

test('S1.7 a partition that was used only for a list ends after the idle timeout', async () => {
  const scene = new Scene();
  await scene.run();
  const before = scene.script.live.length;
  const client = clientOf(null, '{}', { principal: ada, forwarded: { 'x-team': 'red' } });
  const listed = scene.bench.set.catalog('web', client, 1_000);
  await settled();
  assert.deepEqual(
    (await listed)?.lists.tools.items.map(({ key }) => key),
    ['echo'],
  );
  assert.equal(scene.script.live.length, before + 1);
  const { idleTimeoutMs, sweepMs } = POOL_DEFAULTS;
  await scene.bench.clock.advance(idleTimeoutMs - sweepMs);
  assert.equal(scene.script.live.length, before + 1);
  await scene.bench.clock.advance(2 * sweepMs);
  assert.equal(scene.script.live.length, before);
});

for (const change of ['replaced', 'removed'] as const) {
  test(`S2.27 calls in flight in the partition of a caller finish when its server is ${change}`, async () => {
    const scene = new Scene();
    await scene.run();
    scene.script.handlers['tools/call'] = () => SILENCE;
    const outcome = scene.call(ada, 'red');
    await settled();
    const link = scene.script.last;
    const { id } = link.lastOf('tools/call');
    const done =
      change === 'replaced' ? scene.apply(webOf({ connectionDigest: 'new' })) : scene.bench.set.apply(new Map());
    await settled();
    assert.equal(link.closedWith, null, 'while a call runs');
    link.respond(Number(id), { resultType: 'complete', content: [] });
    answerText(await outcome);
    await done;
    assert.equal(link.closedWith, 'remove');
  });
}

test('a node that stops waits for calls in the partitions of callers', async () => {
  const scene = new Scene();
  await scene.run();
  scene.script.handlers['tools/call'] = () => SILENCE;
  void scene.call(ada, 'red');
  await settled();
  let drained = false;
  const draining = scene.bench.set.drain(500).then(() => {
    drained = true;
  });
  await settled();
  assert.equal(drained, false);
  await scene.bench.clock.advance(500);
  await draining;
});

for (const start of ['eager', 'lazy'] as const) {
  test(`goal:G18 a server that was disabled for a time separates its callers as before (${start})`, async () => {
    const scene = new Scene();
    await scene.run(webOf({ start }));
    answerText(await scene.call(ada, 'red'));
    await scene.apply(webOf({ start, enabled: false }));
    await scene.apply(webOf({ start }));
    await settled();
    const before = scene.opened;
    answerText(await scene.call(ada, 'red'));
    answerText(await scene.call(ada, 'blue'));
    assert.equal(scene.opened, before + 2);
  });
}

test('S3.10 check:F8 a restart of a server whose callers each sign in is one recovery, which ends when it is up for them', async () => {
  const steps: unknown[] = [];
  const observer = {
    recovery: (...step: unknown[]) => void steps.push(step),
    listItemInvalid: () => {},
    loginNeeded: () => {},
    condition: () => {},
  };
  const bench = new UpstreamBench({ listener: newServerEvents('run', () => 0, observer) });
  const locked = new ScriptedServer(statelessServer());
  locked.openFails = new GatewayError('AUTH_REQUIRED', 'asks for credentials');
  const callers = [ada, bob];
  for (const { id } of callers) bench.scripts.set(`web of ${id}`, new ScriptedServer(statelessServer()));
  await bench.run([webOf({ start: 'eager', callerSeparation: { credentials: true, headers: {} } }), locked]);
  for (const principal of callers) answerText(await bench.call('web', toolCall(clientOf(null, '{}', { principal }))));
  const restarted = bench.set.restart('web');
  await settled();
  await bench.clock.advance(200);
  await restarted;
  assert.deepEqual(steps, [
    ['web', 'started', null],
    ['web', 'succeeded', null],
  ]);
  const sides = bench.set.upstream('web')!.partitions!.all();
  assert.deepEqual(
    sides.map(({ state, parts }) => [state, parts.supervisor.restarts]),
    [
      ['connected', 1],
      ['connected', 1],
    ],
  );
});

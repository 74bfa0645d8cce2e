import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { type ScriptedServer, SILENCE, statefulScript } from '../../../test/support/scripted-server.ts';
import { answerText, clientOf, serverOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';

async function rigOf(replicas: number): Promise<{ bench: UpstreamBench; script: ScriptedServer }> {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { start: 'eager', isolation: 'shared', replicas }), script]);
  return { bench, script };
}

/** Advances the clock until the restart is over. */
async function over(bench: UpstreamBench, restarted: Promise<void>): Promise<void> {
  let done = false;
  void restarted.then(() => {
    done = true;
  });
  for (let i = 0; i < 100 && !done; i++) await bench.clock.advance(100);
  assert.ok(done, 'the restart came to an end');
}

test('check:A13 a restart takes one replica after the other, and one serves at any moment', async () => {
  const { bench, script } = await rigOf(3);
  const before = [...script.live];
  const live: number[] = [];
  const open = script.open.bind(script);
  script.open = (kind) => {
    live.push(script.live.length);
    return open(kind);
  };
  let done = false;
  const restarted = bench.set.restart('a').then(() => {
    done = true;
  });
  for (let i = 0; i < 20 && !done; i++) {
    answerText(await bench.call('a', toolCall(clientOf(`s${i}`))));
    assert.ok(script.live.length >= 2, 'never more than one is down');
    await bench.clock.advance(100);
  }
  await restarted;
  assert.deepEqual(live, [2, 2, 2]);
  assert.ok(before.every(({ state }) => state === 'closed'));
  assert.ok(!bench.events.states.includes('stopping'), 'the server was up all the time');
  assert.deepEqual(
    bench.set.status('a')!.replicas.map(({ state, restarts }) => [state, restarts]),
    [
      ['running', 1],
      ['running', 1],
      ['running', 1],
    ],
  );
});

test('check:A13 a replica finishes its calls before it is restarted; its session moves and is notified', async () => {
  const { bench, script } = await rigOf(2);
  const client = clientOf('one');
  answerText(await bench.call('a', toolCall(client)));
  const preferred = script.live.find((link) => link.count('tools/call') === 1)!;
  const answer = script.handlers['tools/call']!;
  script.handlers['tools/call'] = (params, link, id) => (link === preferred ? SILENCE : answer(params, link, id));
  const long = bench.call('a', toolCall(client));
  await settled();
  const restarted = bench.set.restart('a');
  await settled();
  await bench.clock.advance(5_000);
  assert.equal(preferred.state, 'open');
  assert.deepEqual(bench.events.lost, ['one']);
  answerText(await bench.call('a', toolCall(client)));
  preferred.respond(preferred.lastOf('tools/call').id as number, { content: [] });
  answerText(await long);
  await over(bench, restarted);
  assert.equal(preferred.state, 'closed');
  assert.equal(script.live.length, 2);
});

test('check:A13 if one replica does not return, the others go on', async () => {
  const { bench, script } = await rigOf(3);
  script.openFails = new GatewayError('NOT_SENT', 'the program is broken');
  const restarted = bench.set.restart('a');
  await over(bench, restarted);
  assert.equal(script.live.length, 2);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  const again = bench.set.restart('a');
  await over(bench, again);
  assert.equal(script.live.length, 2, 'the broken one is tried first');
});

test('check:A13 the only replica that serves is not restarted while the others are down', async () => {
  const { bench, script } = await rigOf(2);
  await bench.clock.advance(20_000);
  script.openFails = new GatewayError('NOT_SENT', 'the program is broken');
  script.live[1]!.end();
  await settled();
  const restarted = bench.set.restart('a');
  await over(bench, restarted);
  assert.equal(script.links[0]!.state, 'open');
  answerText(await bench.call('a', toolCall(clientOf('one'))));
});

test('check:A13 a server that is suspended or removed while a replica finishes its calls keeps no replica', async () => {
  for (const end of ['suspended', 'removed'] as const) {
    const { bench, script } = await rigOf(2);
    script.handlers['tools/call'] = () => SILENCE;
    const long = ['one', 'two'].map((session) => bench.call('a', toolCall(clientOf(session))));
    await settled();
    const restarted = bench.set.restart('a');
    await bench.clock.advance(1_000);
    assert.equal(script.live.length, 2);
    const off = serverOf('a', { start: 'eager', isolation: 'shared', replicas: 2, enabled: false });
    const left = bench.set.apply(new Map(end === 'removed' ? [] : [['a', off]]));
    await bench.clock.advance(60_000);
    await Promise.all([left, restarted, ...long]);
    assert.equal(script.live.length, 0, end);
    if (end === 'suspended') assert.equal(script.links.length, 2);
    assert.equal(bench.set.status('a')?.replicas.some(({ state }) => state === 'running') ?? false, false, end);
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulScript, statefulServer } from '../../test/support/scripted-server.ts';
import { clientOf, failureOf, serverOf, toolCall, UpstreamBench } from '../../test/support/upstream-bench.ts';

const client = clientOf('s');

test('S4.17 a restart starts no server of a gateway that stops or has stopped', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  const restart = (): Promise<string> =>
    bench.set.restart('a').then(
      () => 'restarted',
      (error: Error) => error.message,
    );
  const closed = bench.set.close('shutdown');
  const restarts = [restart()];
  await closed;
  restarts.push(restart());
  await settled();
  await bench.clock.advance(1_000);
  const refused = 'a was not restarted: the gateway stops';
  assert.deepEqual(await Promise.all(restarts), [refused, refused]);
  assert.equal(script.links.length, 1);
});

test('S4.17 a gateway that stops does not wait for calls in flight on a server that was removed before', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await bench.run([serverOf('a'), script]);
  const inFlight = bench.call('a', toolCall(client));
  await settled();
  const applied = bench.set.apply(new Map());
  await settled();
  assert.equal(script.live.length, 1, 'the call may finish');
  await bench.set.close('interrupt');
  assert.equal(failureOf(await inFlight).outcome, 'UNKNOWN');
  assert.deepEqual([script.last.closedWith, script.live.length], ['interrupt', 0]);
  await applied;
});

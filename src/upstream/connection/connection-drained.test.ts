import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulServer } from '../../../test/support/scripted-server.ts';
import { clientOf, serverOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';

test('each caller that waits for a connection to drain is notified when it has, and waits no longer than its own limit', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await bench.run([serverOf('a'), script]);
  const outcome = bench.call('a', toolCall(clientOf('session-1')));
  await settled();
  const ended: string[] = [];
  void bench.set.drain(60_000).then(() => ended.push('first'));
  void bench.set.drain(100).then(() => ended.push('impatient'));
  void bench.set.drain(60_000).then(() => ended.push('second'));
  await bench.clock.advance(100);
  assert.deepEqual(ended, ['impatient']);
  script.last.respond(script.last.lastOf('tools/call').id as number, {});
  await outcome;
  await settled();
  assert.deepEqual(ended, ['impatient', 'first', 'second']);
});

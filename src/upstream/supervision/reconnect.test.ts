import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { statefulScript } from '../../../test/support/scripted-server.ts';
import { answerText, clientOf, serverOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';

test('S4.12 after a death attempts follow at growing intervals without end; a restart resets them', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  const status = () => bench.set.status('a')!;
  const opened = () => script.links.length;

  // A healthy server that dies is started again at once, with a new transport.
  const before = opened();
  script.last.end();
  await settled();
  assert.equal(opened(), before + 1);
  assert.equal(status().state, 'running');
  answerText(await bench.call('a', toolCall(clientOf('one'))));

  script.openFails = new GatewayError('NOT_SENT', 'not now', { server: 'a' });
  script.last.end();
  await settled();
  assert.equal(status().state, 'failed');
  const pauses: number[] = [];
  for (let i = 0; i < 12; i++) {
    const pause = status().nextRetryAt! - bench.clock.wall();
    const links = opened();
    await bench.clock.advance(pause - 1);
    assert.equal(opened(), links, 'no attempt before nextRetryAt');
    await bench.clock.advance(1);
    assert.equal(opened(), links + 1);
    pauses.push(pause);
  }
  assert.deepEqual(
    [...pauses].sort((a, b) => a - b),
    pauses,
  );
  assert.equal(pauses.at(-1), 30 * 60_000);
  assert.ok(status().consecutiveFailures >= 12);

  const restarted = bench.set.restart('a');
  await settled();
  await bench.clock.advance(200);
  await restarted;
  assert.equal(status().nextRetryAt! - bench.clock.wall(), pauses[0], 'the intervals start again');
  script.openFails = null;
  await bench.clock.advance(pauses[0]!);
  assert.equal(status().state, 'running');
  assert.equal(status().nextRetryAt, null);
  // The new transport is watched like the first.
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  const revived = script.last;
  revived.end();
  await settled();
  assert.equal(status().state, 'running');
  assert.ok(script.live.length > 0 && !script.live.includes(revived));
});

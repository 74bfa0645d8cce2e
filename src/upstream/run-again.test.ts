import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulServer } from '../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../test/support/upstream-bench.ts';
import { GatewayError } from '../model/gateway-error.ts';

test('a call that may have run and cannot be sent a second time is not one that was never sent', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statefulServer());
  await bench.run([serverOf('a', { retry: 'always' }), script]);
  answerText(await bench.call('a', toolCall(clientOf('s'))));
  script.handlers['tools/call'] = (_params, link) => {
    script.openFails = new GatewayError('NOT_SENT', 'spawn nowhere ENOENT');
    link.end();
    return SILENCE;
  };
  const outcome = bench.call('a', toolCall(clientOf('s')));
  await settled();
  await bench.clock.advance(60_000);
  const { code, data } = failureOf(await outcome);
  assert.deepEqual([code, data.outcome, data.sent, data.retryable], ['UNKNOWN', 'UNKNOWN', true, false]);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../test/support/fake-clock.ts';
import { type Handler, Refusal, SILENCE, statefulScript } from '../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  toolCall,
  UpstreamBench,
} from '../../test/support/upstream-bench.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { KEPT_MS, OpenFailures } from './dispatcher.ts';

test('a connection that could not be opened is remembered for ten seconds, or until it opens', async () => {
  const clock = new FakeClock();
  const openFailures = new OpenFailures(clock);
  openFailures.failed('one');
  await clock.advance(KEPT_MS - 1);
  openFailures.failed('two');
  assert.deepEqual([openFailures.has('one'), openFailures.has('two'), openFailures.has('three')], [true, true, false]);
  await clock.advance(1);
  assert.deepEqual([openFailures.has('one'), openFailures.has('two')], [false, true]);
  openFailures.opened('two');
  assert.equal(openFailures.has('two'), false);
});

test('the dispatcher remembers the last thousand failed connections', () => {
  const openFailures = new OpenFailures(new FakeClock());
  for (let i = 0; i < 2_000; i++) openFailures.failed(`${i}`);
  assert.deepEqual([openFailures.has('900'), openFailures.has('1000'), openFailures.has('1999')], [false, true, true]);
});

test('fault:F20 a remote server that refuses the connection of one client stays available to others, unless it refuses them too', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const { initialize } = script.handlers;
  await bench.run([httpServerOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  const [first] = script.links;
  const status = () => {
    const { state, restarts } = bench.set.status('a')!;
    return [state, restarts, first!.count('ping')];
  };
  const failed: Handler = (_params, link, id) => {
    const cause = { status: 500, challenge: null };
    link.lose(id, 'UNKNOWN', new GatewayError('UNKNOWN', 'mcp http status 500', { cause }));
    return SILENCE;
  };
  const refused =
    (more: { status?: 403 } = {}): Handler =>
    (_params, link) => {
      link.end({ kind: 'auth_required', challenge: null, ...more }, 'NOT_SENT');
      return SILENCE;
    };
  const crowded: Handler = () => new Refusal(-32000, 'too many sessions');
  for (const [at, refusal] of [refused({ status: 403 }), crowded, failed].entries()) {
    script.handlers['initialize'] = refusal;
    failureOf(await bench.call('a', toolCall(clientOf('refused'))));
    await settled();
    assert.deepEqual(status(), ['connected', 0, at + 1]);
    script.handlers['initialize'] = initialize!;
    answerText(await bench.call('a', toolCall(clientOf(`new ${at}`))));
  }
  script.handlers['initialize'] = script.handlers['ping'] = refused();
  assert.equal(failureOf(await bench.call('a', toolCall(clientOf('refused')))).code, 'AUTH_REQUIRED');
  await settled();
  assert.equal(status()[0], 'auth_required');
});

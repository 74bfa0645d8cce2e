import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  Refusal,
  ScriptedServer,
  SILENCE,
  statefulScript,
  statelessScript,
} from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  TestExchange,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { HttpFailure } from '../../http/client/http-failure.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { request } from '../../protocol/compose.ts';
import type { Connection } from '../connection/connection.ts';
import type { ServerContext } from '../server-context.ts';
import { failureError } from '../transport/http-refusal.ts';
import { ServerHealth } from './server-health.ts';

const eager = { start: 'eager' } as const;
const lost = () => new GatewayError('UNKNOWN', 'cut off');

test('S3.11 check:F1 an idle server is probed every 30 s with ping, one of 2026-07-28 with server/discover', async () => {
  const bench = new UpstreamBench();
  const old = statefulScript();
  const modern = statelessScript();
  await bench.run([httpServerOf('old', eager), old], [httpServerOf('modern', eager), modern]);
  const discovered = modern.last.count('server/discover');
  const asked = () => [old.last.count('ping'), modern.last.count('server/discover') - discovered];
  assert.deepEqual(asked(), [0, 0]);
  await bench.clock.advance(29_999);
  assert.deepEqual(asked(), [0, 0]);
  await bench.clock.advance(1);
  assert.deepEqual(asked(), [1, 1]);
  await bench.clock.advance(60_000);
  assert.deepEqual(asked(), [3, 3]);
  assert.deepEqual([bench.set.status('old')?.health, bench.set.status('modern')?.health], ['healthy', 'healthy']);
});

test('S3.11 check:F1 no probe is sent while calls run or were answered within the interval', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a', { ...eager, isolation: 'shared' }), script]);
  const client = clientOf('s');
  for (let i = 0; i < 6; i++) {
    answerText(await bench.call('a', toolCall(client)));
    await bench.clock.advance(20_000);
  }
  assert.equal(script.last.count('ping'), 0);
  // A call that takes long.
  script.handlers['tools/call'] = () => SILENCE;
  const outcome = bench.call('a', toolCall(client));
  await bench.clock.advance(59_000);
  assert.equal(script.last.count('ping'), 0);
  script.last.respond(script.last.lastOf('tools/call').id as number, { content: [] });
  answerText(await outcome);
  await bench.clock.advance(29_000);
  assert.equal(script.last.count('ping'), 0);
  await bench.clock.advance(31_000);
  assert.equal(script.last.count('ping'), 1);
});

test('S3.11 the interval is set per server, can change while it runs, and 0 means never', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const server = httpServerOf('a', { ...eager, probeMs: 1_000 });
  await bench.run([server, script]);
  await bench.clock.advance(3_000);
  assert.equal(script.last.count('ping'), 3);
  const before = bench.clock.pending;
  await bench.set.apply(new Map([['a', { ...server, probeMs: 0 }]]));
  // The server has one timer, and none while probes are off.
  assert.equal(bench.clock.pending, before - 1);
  await bench.clock.advance(600_000);
  assert.equal(script.last.count('ping'), 3);
  await bench.set.apply(new Map([['a', { ...server, probeMs: 10_000 }]]));
  await bench.clock.advance(10_000);
  assert.equal(script.last.count('ping'), 4);
  assert.equal(script.links.length, 1);
});

test('S3.11 W3.1 check:F1 a process that hangs without calls: unhealthy, and replaced after a second probe', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', eager), script]);
  script.handlers['ping'] = () => SILENCE;
  await bench.clock.advance(34_999);
  assert.equal(bench.set.status('a')?.health, 'healthy');
  await bench.clock.advance(1);
  const status = bench.set.status('a')!;
  assert.deepEqual([status.state, status.health], ['running', 'unhealthy']);
  assert.match(status.reason ?? '', /did not answer ping/);
  assert.equal(script.links.length, 1);
  await bench.clock.advance(10_000);
  assert.equal(script.links.length, 2);
  assert.equal(script.links[0]!.state, 'closed');
  script.handlers['ping'] = () => ({});
  const after = bench.set.status('a')!;
  assert.deepEqual([after.state, after.health, after.restarts], ['running', 'healthy', 1]);
});

for (const define of [serverOf, httpServerOf]) {
  test(`S3.11 W3.1 check:F1 an open subscription does not hide that a server hangs (${define.name})`, async () => {
    const bench = new UpstreamBench();
    const script = statelessScript();
    await bench.run([define('a', eager), script]);
    script.handlers['subscriptions/listen'] = () => SILENCE;
    script.handlers['server/discover'] = () => SILENCE;
    const params = '{"notifications":{"resourceSubscriptions":["file:///x"]}}';
    const listen = request('subscriptions/listen', '"l"', params, 'stateless');
    const ended = bench.call('a', new TestExchange(clientOf(null), listen));
    await settled();
    assert.equal(script.last.count('subscriptions/listen'), 1);
    await bench.clock.advance(35_000);
    assert.equal(bench.set.status('a')?.health, 'unhealthy');
    await bench.clock.advance(10_000);
    assert.equal(script.links[0]!.state, 'closed');
    failureOf(await ended);
  });
}

test('S3.11 a remote server that returns before the second probe keeps its connection and is healthy again', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a', eager), script]);
  script.handlers['ping'] = (_params, link, id) => {
    link.lose(id, 'NOT_SENT');
    return SILENCE;
  };
  await bench.clock.advance(30_000);
  assert.equal(bench.set.status('a')?.health, 'unhealthy');
  script.handlers['ping'] = () => ({});
  await bench.clock.advance(5_000);
  assert.equal(bench.set.status('a')?.health, 'healthy');
  assert.equal(bench.set.status('a')?.reason, null);
  assert.equal(script.links.length, 1);
});

test('S3.11 a remote server that stays away is reconnected when it returns', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a', eager), script]);
  script.handlers['ping'] = (_params, link, id) => {
    link.lose(id, 'NOT_SENT');
    return SILENCE;
  };
  script.openFails = new GatewayError('NOT_SENT', 'connection refused');
  await bench.clock.advance(35_000);
  const down = bench.set.status('a')!;
  assert.deepEqual([down.state, down.health], ['failed', 'unhealthy']);
  script.openFails = null;
  await bench.clock.advance(60_000);
  assert.equal(bench.set.status('a')?.state, 'connected');
});

test('S3.11 a server that does not know ping, or refuses it, is healthy', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.handlers['ping'] = () => new Refusal(-32601, 'Method not found');
  const status = statefulScript();
  status.handlers['ping'] = (_params, link, id) => {
    const cause = { status: 400, challenge: null };
    link.lose(id, 'NOT_SENT', new GatewayError('NOT_SENT', 'mcp http status 400', { retryable: false, cause }));
    return SILENCE;
  };
  await bench.run([httpServerOf('a', eager), script], [httpServerOf('b', eager), status]);
  await bench.clock.advance(120_000);
  for (const [name, { links, last }] of Object.entries({ a: script, b: status })) {
    assert.equal(last.count('ping'), 4);
    assert.deepEqual([links.length, bench.set.status(name)?.health], [1, 'healthy']);
  }
});

test('S3.11 check:F1 a probe never ends a connection that answers calls meanwhile', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.handlers['ping'] = () => SILENCE;
  await bench.run([httpServerOf('a', { ...eager, isolation: 'shared' }), script]);
  const client = clientOf('s');
  for (let i = 0; i < 4; i++) {
    // A probe is in flight, and a call is answered before the probe times out.
    await bench.clock.advance(31_000);
    answerText(await bench.call('a', toolCall(client)));
    await bench.clock.advance(34_000);
    answerText(await bench.call('a', toolCall(client)));
  }
  assert.ok(script.last.count('ping') > 0);
  assert.equal(script.links.length, 1);
});

test('S3.11 no probe is sent to a server that is not up, and no timer is left', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a', eager), script]);
  await bench.set.close('shutdown');
  await bench.clock.advance(600_000);
  assert.equal(script.links[0]!.count('ping'), 0);
  assert.equal(bench.clock.pending, 0);
});

test('S3.11 S3.18 check:F1 failed calls make a server unhealthy although the probe succeeds; one answered call makes it healthy', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a', { ...eager, isolation: 'shared' }), script]);
  const answering = script.handlers['tools/call']!;
  script.handlers['tools/call'] = (_params, link, id) => {
    link.lose(id, 'UNKNOWN', lost());
    return SILENCE;
  };
  const seen: (string | undefined)[] = [];
  for (let i = 0; i < 3; i++) {
    failureOf(await bench.call('a', toolCall(clientOf('s'))));
    seen.push(bench.set.status('a')?.health);
  }
  assert.deepEqual(seen, ['healthy', 'healthy', 'unhealthy']);
  await bench.clock.advance(90_000);
  assert.ok(script.last.count('ping') > 0);
  const status = bench.set.status('a')!;
  assert.deepEqual([status.state, status.health], ['connected', 'unhealthy']);
  assert.match(status.reason ?? '', /3 calls in a row failed: cut off/);
  script.handlers['tools/call'] = answering;
  answerText(await bench.call('a', toolCall(clientOf('s'))));
  assert.equal(bench.set.status('a')?.health, 'healthy');
});

test('S3.8 S3.11 a tool error, a refusal and a cancelled call are not failures of the server', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a', { ...eager, isolation: 'shared' }), script]);
  const client = clientOf('s');
  for (let i = 0; i < 12; i++) {
    script.handlers['tools/call'] = () =>
      i % 2 === 0 ? new Refusal(-32000, 'tool broke') : { isError: true, content: [] };
    answerText(await bench.call('a', toolCall(client)));
    script.handlers['tools/call'] = () => SILENCE;
    const exchange = toolCall(client);
    const outcome = bench.call('a', exchange);
    await settled();
    exchange.cancel('gone');
    failureOf(await outcome);
  }
  const status = bench.set.status('a')!;
  assert.deepEqual([status.health, status.consecutiveFailures, status.restarts], ['healthy', 0, 0]);
});

test('a request with text that HTTP does not allow is refused once, and is no failure of the server', async () => {
  const bench = new UpstreamBench();
  const script = statelessScript();
  const refused = failureError('a', new HttpFailure('malformed', false, 'not allowed'), 1);
  script.handlers['tools/call'] = (_params, link, id) => {
    link.lose(id, 'NOT_SENT', refused);
    return SILENCE;
  };
  await bench.run([httpServerOf('a', { ...eager, isolation: 'shared' }), script]);
  for (let i = 0; i < 12; i++) {
    const { code, data } = failureOf(await bench.call('a', toolCall(clientOf(null))));
    assert.deepEqual(
      [code, data],
      ['INVALID_REQUEST', { outcome: 'REFUSED', sent: false, retryable: false, server: 'a', attempts: 1 }],
    );
  }
  assert.equal(script.last.count('tools/call'), 12);
  const { health, restarts, connections } = bench.set.status('a')!;
  assert.deepEqual([health, restarts, connections[0]?.consecutiveErrors, script.links.length], ['healthy', 0, 0, 1]);
});

test('S3.11 S3.6 check:F8 a change of health is reported once, whichever check finds it', () => {
  const turns: (string | null)[] = [];
  const events = { healthChanged: (reason: string | null) => void turns.push(reason) };
  const health = new ServerHealth({ events } as unknown as ServerContext, { connections: () => [] });
  assert.equal(health.reason, null);
  for (let i = 0; i < 5; i++) health.callFailed(lost());
  health.probed(null);
  assert.notEqual(health.reason, null);
  health.probed('no answer');
  health.callAnswered();
  // The probe has not been answered yet.
  assert.notEqual(health.reason, null);
  health.probed('no answer');
  health.probed(null);
  assert.equal(health.reason, null);
  assert.deepEqual(turns, ['3 calls in a row failed: cut off', null]);
  for (const error of [
    new GatewayError('CANCELLED', 'ours'),
    new GatewayError('OVERLOADED', 'later'),
    new GatewayError('NOT_SENT', 'no', { retryable: false }),
  ]) {
    for (let i = 0; i < 5; i++) health.callFailed(error);
  }
  assert.equal(health.reason, null);
});

test('S3.11 calls that were not sent before a restart do not count after it', () => {
  let replaced = 0;
  const events = { replace: () => void replaced++ };
  const context = { name: 'a', local: false, server: { probeMs: 0 }, events } as unknown as ServerContext;
  const health = new ServerHealth(context, { connections: () => [] });
  const unsent = (): void => health.callUnsent({} as Connection);
  for (let i = 0; i < 2; i++) unsent();
  health.moved('connected');
  for (let i = 0; i < 2; i++) unsent();
  assert.equal(replaced, 0);
  unsent();
  assert.equal(replaced, 1);
});

test('S3.3 a remote server has 30 s to start, a process a minute', async () => {
  const bench = new UpstreamBench();
  const silent = () => new ScriptedServer({ initialize: () => SILENCE, 'server/discover': () => SILENCE });
  await bench.run([httpServerOf('far', eager), silent()], [serverOf('near', eager), silent()]);
  const states = () => [bench.set.status('far')?.state, bench.set.status('near')?.state];
  await bench.clock.advance(29_999);
  assert.deepEqual(states(), ['starting', 'starting']);
  await bench.clock.advance(1);
  assert.deepEqual(states(), ['failed', 'starting']);
  assert.match(bench.set.status('far')?.reason ?? '', /30000 ms/);
  await bench.clock.advance(30_000);
  assert.equal(states()[1], 'failed');
});

test('S3.11 one connection of a remote server is probed for all, and none while one of them answers; each process is probed', async () => {
  const bench = new UpstreamBench();
  const far = statefulScript();
  const near = statefulScript();
  await bench.run([httpServerOf('far'), far], [serverOf('near'), near]);
  for (const name of ['far', 'near']) {
    for (const session of ['s1', 's2']) answerText(await bench.call(name, toolCall(clientOf(session))));
  }
  const asked = ({ links }: ScriptedServer) => links.map((link) => link.count('ping'));
  await bench.clock.advance(65_000);
  assert.equal(far.links.length, 2);
  assert.deepEqual(asked(far), [1, 1]);
  assert.deepEqual(asked(near), [2, 2]);
  answerText(await bench.call('far', toolCall(clientOf('s1'))));
  answerText(await bench.call('near', toolCall(clientOf('s1'))));
  await bench.clock.advance(25_000);
  assert.deepEqual(asked(far), [1, 1]);
  assert.deepEqual(asked(near), [2, 3]);
});

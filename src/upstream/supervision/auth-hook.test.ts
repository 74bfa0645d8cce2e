import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulServer } from '../../../test/support/scripted-server.ts';
import { clientOf, failureOf, httpServerOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { challengeOf } from '../health/failure-class.ts';

const CHALLENGE =
  'Bearer realm="x \\"y\\"", resource_metadata="https://a.example/.well-known/x", scope="read write", issuer=https://as.example';

function unauthorized(): ScriptedServer {
  const refuse = (_params: unknown, link: ScriptedServer['last']) => {
    link.end({ kind: 'auth_required', challenge: CHALLENGE }, 'NOT_SENT');
    return SILENCE;
  };
  return new ScriptedServer({ ...statefulServer(), initialize: refuse, 'server/discover': refuse });
}

test('S3.5 S3.7 fault:F20 the hook gets the current definition and the challenge before auth_required is reported', async () => {
  const reported: string[] = [];
  const bench = new UpstreamBench({
    beforeAuthRequired: (status, challenge) => {
      reported.push(
        `${status.definition.description} ${status.state} ${challenge.resourceMetadata} ${challenge.scope} ${challenge.issuer}`,
      );
      assert.ok(!bench.events.states.includes('auth_required') || reported.length > 1);
    },
  });
  const before = httpServerOf('a', { description: 'at first' });
  await bench.run([before, unauthorized()]);
  // This change needs no new connection: the same upstream goes on under the new definition.
  await bench.set.apply(new Map([['a', { ...before, description: 'by now' }]]));
  const error = failureOf(await bench.call('a', toolCall(clientOf('s'))));
  assert.equal(error.code, 'AUTH_REQUIRED');
  assert.ok(!JSON.stringify([error.message, error.data]).includes('Bearer'));
  assert.deepEqual(reported, ['by now starting https://a.example/.well-known/x read write https://as.example']);
  const status = bench.set.status('a')!;
  const challenge = {
    resourceMetadata: 'https://a.example/.well-known/x',
    scope: 'read write',
    issuer: 'https://as.example',
  };
  assert.deepEqual(status.authChallenge, challenge);
  assert.deepEqual(status.history.at(-1)?.challenge, challenge);
  assert.deepEqual([status.state, status.health, status.consecutiveFailures], ['auth_required', 'unknown', 0]);
  assert.equal(status.nextRetryAt, null);
  assert.equal(bench.events.states.at(-1), 'auth_required');
});

test('S3.5 a hook that throws does not suppress any event', async () => {
  const bench = new UpstreamBench({
    beforeAuthRequired: () => {
      throw new Error('hook');
    },
  });
  await bench.run([httpServerOf('a', { start: 'eager' }), unauthorized()]);
  await settled();
  assert.equal(bench.set.status('a')?.state, 'auth_required');
});

test('S3.7 a challenge is read if there is one; long or broken values cause no error', () => {
  const of = (challenge: string | null) =>
    challengeOf(new GatewayError('AUTH_REQUIRED', 'x', { cause: { status: 401, challenge } }));
  assert.deepEqual(of(null), { resourceMetadata: null, scope: null, issuer: null });
  assert.equal(of('Bearer scope=a, realm="b').scope, 'a');
  assert.equal(of(`Bearer scope="${'a'.repeat(10_000)}"`).scope, null);
  assert.equal(challengeOf(new GatewayError('AUTH_REQUIRED', 'x')).scope, null);
});

test('fault:F20 requests that arrive too late for a connection about to end do not count as a lost server', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await bench.run([httpServerOf('a'), script]);
  const client = clientOf('s');
  const calls = Array.from({ length: 4 }, () => bench.call('a', toolCall(client)));
  await settled();
  const { last } = script;
  const [asked, ...late] = last.seen.filter(({ method }) => method === 'tools/call').map(({ id }) => Number(id));
  // The order of an HTTP transport: first the requests after the first 401, then those that waited for their own.
  for (const id of late) last.lose(id, 'NOT_SENT', new GatewayError('NOT_SENT', 'the connection has ended'));
  last.lose(asked!, 'NOT_SENT', new GatewayError('AUTH_REQUIRED', 'credentials'));
  last.end({ kind: 'auth_required', challenge: CHALLENGE });
  for (const call of calls) assert.equal(failureOf(await call).code, 'AUTH_REQUIRED');
  assert.equal(bench.set.status('a')?.state, 'auth_required');
});

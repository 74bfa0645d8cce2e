import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { statefulScript } from '../../../test/support/scripted-server.ts';
import { stillRandom } from '../../../test/support/still-random.ts';
import { httpServerOf, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { HttpFailure, type HttpFailureKind } from '../../http/client/http-failure.ts';
import { undiciFailure } from '../../http/client/undici-request.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { asGatewayError, closedError } from '../connection/failures.ts';
import { resolveCommand, spawnFailure } from '../process/command.ts';
import { Supervisor } from '../supervision/supervisor.ts';
import { failureError, refusalError } from '../transport/http-refusal.ts';
import { type FailureClass, failureClass } from './failure-class.ts';

/** Has all words that would mislead a classification by text. */
const TEXT = 'timeout: certificate x509 tls handshake, connection refused, EOF, status 500, context canceled';

const failed = (kind: HttpFailureKind, sent = false) => failureError('a', new HttpFailure(kind, sent, TEXT), 1);
const headers = { get: () => undefined } as unknown as Parameters<typeof refusalError>[2];
const status = (code: number) =>
  refusalError({ server: 'a', secrets: [], wallMs: 0 }, code, headers, Buffer.from(TEXT));
const coded = (code: string) => Object.assign(new Error(TEXT), { code });

test('S3.8 check:F3 a failure is classified by its type and the codes of its causes, not by its text', () => {
  const cases: readonly [GatewayError, FailureClass][] = [
    [failed('refused'), 'transient'],
    [failed('dns'), 'transient'],
    [failed('timeout'), 'transient'],
    [failed('reset', true), 'transient'],
    [failed('tls'), 'tls'],
    [failed('closed'), 'abort'],
    [failed('malformed'), 'abort'],
    [failureError('a', undiciFailure(coded('CERT_HAS_EXPIRED'), false), 1), 'tls'],
    [failureError('a', undiciFailure(coded('ERR_TLS_CERT_ALTNAME_INVALID'), false), 1), 'tls'],
    [failureError('a', undiciFailure(coded('ECONNREFUSED'), false), 1), 'transient'],
    [status(500), 'transient'],
    [status(502), 'transient'],
    [status(511), 'transient'],
    [status(429), 'transient'],
    [status(404), 'configuration'],
    [status(308), 'configuration'],
    [status(401), 'auth'],
    [status(403), 'auth'],
    [spawnFailure('a', '/a', coded('ENOENT')), 'configuration'],
    [spawnFailure('a', '/a', coded('EACCES')), 'configuration'],
    [spawnFailure('a', '/a', coded('EAGAIN')), 'transient'],
    [new GatewayError('CANCELLED', TEXT), 'abort'],
    [new GatewayError('TIMEOUT', TEXT), 'transient'],
    [new GatewayError('UPSTREAM_PROTOCOL', TEXT), 'configuration'],
    [closedError('a', { kind: 'exited', code: 1, signal: null }), 'transient'],
    [closedError('a', { kind: 'session_lost' }), 'transient'],
    [closedError('a', { kind: 'auth_required', challenge: null }), 'auth'],
    [closedError('a', { kind: 'unreachable', error: failed('tls') }), 'tls'],
    [asGatewayError(new Error(TEXT), 'a'), 'transient'],
  ];
  for (const [error, expected] of cases) {
    assert.equal(failureClass(error), expected, `${error.code} ${error.cause}`);
    // An error that wraps it has the same class.
    const wrapped = new GatewayError(error.code, 'could not be started', { outcome: 'NOT_SENT', cause: error });
    assert.equal(failureClass(wrapped), expected);
  }
});

test('S3.8 a missing command is a mistake in the definition', async () => {
  for (const command of ['/nowhere/at-all', 'no-such-program-anywhere', '']) {
    const error = await resolveCommand('a', { command, cwd: '/' }, { PATH: '/usr/bin' }).then(
      () => assert.fail(command),
      (cause: GatewayError) => cause,
    );
    assert.equal(failureClass(error), 'configuration', command);
  }
});

test('S3.8 check:F3 only transient failures count: others are retried, and never make a server unreachable', async () => {
  const cases: readonly [GatewayError, number, string][] = [
    [failed('refused'), 4, 'unreachable'],
    [failed('tls'), 0, 'failed'],
    [status(404), 0, 'failed'],
    [new GatewayError('CANCELLED', 'ours', { outcome: 'NOT_SENT' }), 0, 'failed'],
  ];
  for (const [error, counted, state] of cases) {
    const clock = new FakeClock();
    const supervisor = new Supervisor(
      {
        server: 'a',
        local: false,
        clock,
        random: stillRandom(),
        times: { startupMs: 1000 },
      },
      {
        launch: () => Promise.reject(error),
        halt: async () => {},
        moved: () => {},
      },
    );
    await supervisor.start();
    for (let i = 0; i < 3; i++) await clock.advance(supervisor.nextRetryAt! - clock.wall());
    assert.deepEqual([supervisor.consecutiveFailures, supervisor.state], [counted, state], error.message);
    assert.ok(supervisor.nextRetryAt! >= clock.wall() + 30_000);
  }
});

test('S3.8 a connection that the gateway aborts is not a crash of the server', async () => {
  const clock = new FakeClock();
  const supervisor = new Supervisor(
    {
      server: 'a',
      local: false,
      clock,
      random: stillRandom(),
      times: { startupMs: 1000 },
    },
    {
      launch: async () => {},
      halt: async () => {},
      moved: () => {},
    },
  );
  await supervisor.start();
  supervisor.crashed(new GatewayError('CANCELLED', 'no longer wanted', { outcome: 'NOT_SENT' }));
  supervisor.crashed(failed('closed'));
  assert.deepEqual([supervisor.state, supervisor.consecutiveFailures, supervisor.restarts], ['connected', 0, 0]);
});

test('S3.8 S3.7 a bad certificate is reported through the handshake, and does not count', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.openFails = failed('tls');
  await bench.run([httpServerOf('a', { start: 'eager' }), script]);
  for (let i = 0; i < 3; i++) await bench.clock.advance(600_000);
  await settled();
  const seen = bench.set.status('a')!;
  assert.deepEqual([seen.state, seen.consecutiveFailures, seen.health], ['failed', 0, 'unhealthy']);
});

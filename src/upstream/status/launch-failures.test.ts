import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { HttpFailure } from '../../http/client/http-failure.ts';
import { POOL_DEFAULTS } from '../../model/desired-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { TransportSpec } from '../../model/server.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { Connection } from '../connection/connection.ts';
import { type PartEvents, ServerContext, UPSTREAM_TIMES, type UpstreamSetDeps } from '../server-context.ts';
import type { Transition } from '../supervision/state-machine.ts';
import { type FailedStart, likelyCause, ServerObserver } from './server-observer.ts';

function moved(to: string): Transition {
  return { from: 'starting', to, reason: 'it has ended', failure: null, at: 7 } as unknown as Transition;
}

function endedWith(code: number, words: string): Connection {
  return { ended: { kind: 'exited', code, signal: null }, transport: { stderrTail: () => words } } as Connection;
}

test('S1.19 a failed start stays visible in full, also while the next one runs', () => {
  const deps = { clock: new FakeClock(), logger: Logger.silent() } as unknown as UpstreamSetDeps;
  const limits = { maxProcesses: 1, maxTimeoutMs: 1, pool: POOL_DEFAULTS };
  const context = new ServerContext(serverNamed('dies'), deps, limits, UPSTREAM_TIMES, {} as PartEvents);
  const parts = { context, supervisor: { startedAt: 0 } } as ConstructorParameters<typeof ServerObserver>[0];
  const reports = new ServerObserver(parts);
  const reported = (): unknown[] => {
    const failure = reports.lastLaunchFailure;
    return failure === null ? [] : [failure.error, failure.exit, failure.stderrTail];
  };
  reports.starting();
  assert.deepEqual(reported(), []);
  reports.moved(moved('failed'));
  assert.deepEqual(reported(), ['it has ended', null, '']);
  reports.ended(endedWith(3, 'no such file'));
  const first = ['it has ended', { code: 3, signal: null }, 'no such file'];
  assert.deepEqual(reported(), first, 'what is left of its process may come after it');
  reports.starting();
  assert.deepEqual(reported(), first);
  reports.ended(endedWith(4, 'no such folder'));
  assert.deepEqual(reported(), first);
  reports.moved(moved('failed'));
  assert.deepEqual(reported(), ['it has ended', { code: 4, signal: null }, 'no such folder']);
  reports.starting();
  reports.moved(moved('running'));
  assert.deepEqual(reported(), []);
});

const UNREACHED = new GatewayError('NOT_SENT', 'refused', { cause: new HttpFailure('refused', false, 'refused') });
const LOCAL: TransportSpec = { type: 'stdio', command: 'x', args: [], env: {}, inheritEnv: false, cwd: '/' };
const remote = (url: string): TransportSpec => ({ type: 'http', url, headers: {}, tls: {} });

function cause(changes: Partial<FailedStart>): string | null {
  return likelyCause({
    server: 'a',
    transport: LOCAL,
    failure: 'transient',
    error: UNREACHED,
    missing: [],
    inContainer: false,
    exit: null,
    timedOut: false,
    ...changes,
  });
}

test('S1.19 the report names the likely cause of a failed start', () => {
  assert.match(cause({ missing: ['A', 'B'] }) ?? '', /^A, B is to be handed on/);
  assert.match(cause({ failure: 'auth', transport: remote('http://127.0.0.1/') }) ?? '', /credentials/);
  assert.match(cause({ failure: 'configuration' }) ?? '', /definition/);
  assert.match(cause({ exit: { code: 127, signal: null } }) ?? '', /not installed/);
  assert.match(cause({ exit: { code: 126, signal: null } }) ?? '', /executed/);
  assert.match(cause({ exit: { code: 0, signal: null } }) ?? '', /no server/);
  assert.match(cause({ exit: { code: 3, signal: null } }) ?? '', /standard error/);
  assert.match(cause({ exit: { code: null, signal: 'SIGSEGV' } }) ?? '', /standard error/);
  assert.match(cause({ timedOut: true }) ?? '', /waiting for something/);
  assert.equal(cause({}), null);
});

test('S1.19 the report explains that localhost is another host in a container', () => {
  for (const url of ['http://127.0.0.1:1/', 'http://localhost/mcp', 'http://[::1]:8080/']) {
    assert.match(cause({ transport: remote(url), inContainer: true }) ?? '', /host\.docker\.internal/);
    assert.equal(cause({ transport: remote(url) }), null);
  }
  assert.equal(cause({ transport: remote('https://example.com/'), inContainer: true }), null);
});

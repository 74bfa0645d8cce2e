import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { HttpFailure } from '../../http/client/http-failure.ts';
import { POOL_DEFAULTS } from '../../model/desired-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { StdioSpec, TransportSpec } from '../../model/server.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { Connection } from '../connection/connection.ts';
import { Misconfigured } from '../process/command.ts';
import { type PartEvents, ServerContext, UPSTREAM_TIMES, type UpstreamSetDeps } from '../server-context.ts';
import type { Transition } from '../supervision/state-machine.ts';
import { type FailedStart, failedStep, likelyCause } from './likely-cause.ts';
import { ServerObserver } from './server-observer.ts';

function moved(to: string): Transition {
  return { from: 'starting', to, reason: 'it has ended', failure: null, at: 7 } as unknown as Transition;
}

function endedWith(code: number, words: string): Connection {
  return { closedReason: { kind: 'exited', code, signal: null }, transport: { stderrTail: () => words } } as Connection;
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
  assert.deepEqual(reported(), first, 'the exit of the process may be reported after the failure');
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

const START: FailedStart = {
  server: 'a',
  transport: LOCAL,
  failure: 'transient',
  error: UNREACHED,
  missing: [],
  inContainer: false,
  exit: null,
  timedOut: false,
};

function cause(changes: Partial<FailedStart>): string | null {
  return likelyCause({ ...START, ...changes });
}

test('S1.19 the report names the likely cause of a failed start', () => {
  assert.match(cause({ missing: ['A', 'B'] }) ?? '', /^A, B is named in its definition, but is not set/);
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
    assert.doesNotMatch(cause({ transport: remote(url) }) ?? '', /container/);
  }
  assert.doesNotMatch(cause({ transport: remote('https://example.com/'), inContainer: true }) ?? '', /container/);
});

const coded = (code: string): Error => Object.assign(new Error(code), { code });
const failed = (kind: HttpFailure['kind'], code: string, sent = false): GatewayError =>
  new GatewayError('NOT_SENT', code, { cause: new HttpFailure(kind, sent, code, coded(code)) });

test('S1.19 the report names the step at which the start of a remote server failed, and a remedy', () => {
  const cases: [GatewayError, string, RegExp][] = [
    [failed('dns', 'ENOTFOUND'), 'name', /knows box\.example; correct the host/],
    [failed('dns', 'EAI_AGAIN'), 'name', /no name server answers/],
    [failed('refused', 'ECONNREFUSED'), 'connection', /nothing listens at box\.example:443; start the server/],
    [failed('refused', 'ENETUNREACH'), 'connection', /cannot be reached from this machine/],
    [failed('timeout', 'ETIMEDOUT'), 'connection', /firewall/],
    [failed('proxy', 'X'), 'connection', /NO_PROXY/],
    [failed('tls', 'DEPTH_ZERO_SELF_SIGNED_CERT'), 'certificate', /tls\.ca/],
    [failed('tls', 'CERT_HAS_EXPIRED'), 'certificate', /expired/],
    [failed('tls', 'CERT_NOT_YET_VALID'), 'certificate', /clock/],
    [failed('tls', 'ERR_TLS_CERT_ALTNAME_INVALID'), 'certificate', /other names/],
    [failed('tls', 'ERR_SSL_WRONG_VERSION_NUMBER'), 'certificate', /http:\/\//],
    [failed('tls', 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'), 'certificate', /tls\.cert and tls\.key/],
    [new GatewayError('NOT_SENT', 'x', { cause: { status: 404, challenge: null } }), 'http', /path of its url/],
    [new GatewayError('UPSTREAM_PROTOCOL', 'x', {}), 'initialize', /no MCP server/],
  ];
  for (const [error, step, words] of cases) {
    const start = { error, transport: remote('https://box.example/mcp') };
    assert.equal(step, failedStep({ ...START, ...start }), error.message);
    assert.match(cause(start) ?? '', words, error.message);
  }
  assert.match(cause({ error: failed('reset', 'X', true), transport: remote('http://h:1/') }) ?? '', /try https:\/\//);
});

test('S1.19 a process fails at its command, at its start, or at initialize', () => {
  const ended = (code: number) => ({ exit: { code, signal: null } });
  const ssh = { host: 'far', user: null, port: 22 } as unknown as StdioSpec['ssh'];
  const cases: [Partial<FailedStart>, string][] = [
    [{ error: new Misconfigured('no such command', 'a') }, 'command'],
    [{ error: new GatewayError('NOT_SENT', 'x', { cause: coded('EAGAIN') }) }, 'start'],
    [ended(1), 'start'],
    [{ ...ended(255), transport: { ...LOCAL, ssh } as TransportSpec }, 'connection'],
    [{ error: new GatewayError('NOT_SENT', 'it did not answer initialize', {}) }, 'initialize'],
    [{ failure: 'auth' }, 'login'],
  ];
  for (const [start, step] of cases) assert.equal(failedStep({ ...START, ...start }), step);
  assert.match(
    cause({ ...ended(255), transport: { ...LOCAL, ssh } as TransportSpec }) ?? '',
    /ssh could not log in to far/,
  );
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpFailure } from '../../http/client/http-failure.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { TransportSpec } from '../../model/server.ts';
import { type FailedStart, likelyCause } from './likely-cause.ts';

const UNREACHED = new GatewayError('NOT_SENT', 'refused', { cause: new HttpFailure('refused', false, 'refused') });
const LOCAL: TransportSpec = { type: 'stdio', command: 'x', args: [], env: {}, inheritEnv: false, cwd: '/' };
const remote = (url: string): TransportSpec => ({ type: 'http', url, headers: {}, tls: {} });

function cause(changes: Partial<FailedStart>): string | null {
  return likelyCause({
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

test('S1.19 the likely cause of a failed start, by what is known of it', () => {
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

test('S1.19 localhost is somewhere else in a container', () => {
  for (const url of ['http://127.0.0.1:1/', 'http://localhost/mcp', 'http://[::1]:8080/']) {
    assert.match(cause({ transport: remote(url), inContainer: true }) ?? '', /host\.docker\.internal/);
    assert.equal(cause({ transport: remote(url) }), null);
  }
  assert.equal(cause({ transport: remote('https://example.com/'), inContainer: true }), null);
});

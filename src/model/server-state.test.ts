import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isSettled, type ServerState, type ServerStatus } from './server-state.ts';

test('a server is settled unless a start or stop is in progress or about to begin', () => {
  const settled = (state: ServerState, more: Partial<ServerStatus> = {}) =>
    isSettled({ state, startedInMs: 1, nextRetryAt: null, ...more } as ServerStatus);
  for (const state of ['failed', 'stopped', 'suspended', 'auth_required', 'misconfigured', 'running'] as const) {
    assert.equal(settled(state), true, state);
  }
  for (const state of ['unknown', 'starting', 'stopping'] as const) assert.equal(settled(state), false, state);
  assert.equal(settled('running', { startedInMs: null }), false);
  assert.equal(settled('unknown', { nextRetryAt: 1 }), true);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientOf } from '../../test/support/upstream-bench.ts';
import type { ServerState } from '../model/server-state.ts';
import { type KnownServers, unavailable } from './known-servers.ts';

test('S3.9 a server that only an operator can start is not retryable', () => {
  const retryable = (state: ServerState) => {
    const upstreams = { status: () => ({ state, reason: null }), servers: () => [] } as unknown as KnownServers;
    return unavailable(upstreams, 'a', clientOf('s')).data.retryable;
  };
  for (const state of ['misconfigured', 'defect', 'stopped', 'disconnected', 'suspended'] as const) {
    assert.equal(retryable(state), false, state);
  }
  for (const state of ['unknown', 'starting', 'degraded', 'failed', 'unreachable'] as const) {
    assert.equal(retryable(state), true, state);
  }
});

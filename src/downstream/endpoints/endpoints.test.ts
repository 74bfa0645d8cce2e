import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ANONYMOUS } from '../../model/client-profile.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { AGGREGATE } from '../../model/exchange.ts';
import { Endpoints } from './endpoints.ts';

function state(servers: readonly { name: string; enabled?: boolean; isolationHeader?: string }[]): DesiredState {
  const entries = servers.map(({ name, enabled = true, isolationHeader = null }) => [
    name,
    { name, enabled, isolationHeader },
  ]);
  return { servers: new Map(entries as never) } as unknown as DesiredState;
}

const BOB = { id: 'agent:bob', name: 'bob', servers: new Set(['a']) };

test('enabled servers have endpoints, for callers who may use them; the endpoints follow the state', () => {
  let desired = state([{ name: 'a' }, { name: 'off', enabled: false }, { name: 'b' }]);
  const endpoints = new Endpoints(() => desired);
  assert.deepEqual(endpoints.server('a', ANONYMOUS), { kind: 'server', server: 'a', path: '/servers/a/mcp' });
  assert.equal(endpoints.server('a', BOB), endpoints.server('a', ANONYMOUS), 'one object for all');
  assert.equal(endpoints.server('b', BOB), null);
  assert.equal(endpoints.server('off', ANONYMOUS), null);
  assert.equal(endpoints.server('constructor', ANONYMOUS), null);
  desired = state([{ name: 'b' }]);
  assert.equal(endpoints.server('a', ANONYMOUS), null);
});

test('stateless clients are separated by the isolation headers of the servers behind the endpoint', () => {
  const desired = state([
    { name: 'a', isolationHeader: 'X-User' },
    { name: 'b', isolationHeader: 'x-team' },
    { name: 'c' },
  ]);
  const endpoints = new Endpoints(() => desired);
  const headers = { 'x-user': 'u1', 'x-team': 't1' };
  assert.equal(endpoints.handleOf(endpoints.server('a', ANONYMOUS)!, headers), 'u1');
  assert.equal(endpoints.handleOf(endpoints.server('a', ANONYMOUS)!, {}), null);
  assert.equal(endpoints.handleOf(endpoints.server('c', ANONYMOUS)!, headers), null);
  const both = endpoints.handleOf(AGGREGATE, headers);
  assert.notEqual(both, null);
  assert.notEqual(both, endpoints.handleOf(AGGREGATE, { ...headers, 'x-team': 't2' }));
  assert.equal(endpoints.handleOf(AGGREGATE, { other: 'x' }), null);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverOf } from '../../../test/support/upstream-bench.ts';
import type { Server } from '../../model/server.ts';
import { planChanges } from './plan.ts';

const mapOf = (...servers: readonly Server[]) => new Map(servers.map((server) => [server.name, server]));
const namesIn = (plan: ReturnType<typeof planChanges>) =>
  Object.fromEntries(
    Object.entries(plan).map(([step, servers]: [string, readonly Server[]]) => [step, servers.map((s) => s.name)]),
  );
const nothing = { start: [], stop: [], suspend: [], replace: [], update: [] };

test('equal definitions need no step', () => {
  const before = mapOf(serverOf('a'), serverOf('b'));
  assert.deepEqual(namesIn(planChanges(before, new Map(before))), nothing);
});

test('each kind of change is one step, in the order of names', () => {
  const before = mapOf(
    serverOf('gone'),
    serverOf('moved'),
    serverOf('patient'),
    serverOf('put-to-sleep'),
    serverOf('woken', { enabled: false }),
  );
  const after = mapOf(
    serverOf('woken'),
    serverOf('put-to-sleep', { enabled: false }),
    serverOf('patient', { timeoutMs: 5 }),
    serverOf('moved', { connectionDigest: 'elsewhere' }),
    serverOf('new'),
  );
  assert.deepEqual(namesIn(planChanges(before, after)), {
    start: ['new', 'woken'],
    stop: ['gone'],
    suspend: ['put-to-sleep'],
    replace: ['moved'],
    update: ['patient'],
  });
});

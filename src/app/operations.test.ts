import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import type { Operation } from '../model/operation.ts';
import type { ServerState, ServerStatus } from '../model/server-state.ts';
import { Logger } from '../telemetry/logger.ts';
import { Operations } from './operations.ts';

test('a stop during a start ends that start; the next one has its own duration', async () => {
  const clock = new FakeClock();
  const seen: Operation[] = [];
  const operations = new Operations((operation) => void seen.push(operation), clock, Logger.silent());
  const states: [ServerState, number][] = [
    ['starting', 30],
    ['stopping', 2],
    ['stopping', 3],
    ['stopped', 1_000],
    ['starting', 10],
    ['running', 0],
  ];
  for (const [state, thenMs] of states) {
    operations.statusChanged('s', { state, reason: null } as ServerStatus);
    await clock.advance(thenMs);
  }
  assert.deepEqual(
    seen.map(({ name, durationMs, error }) => [name, durationMs, error?.message ?? null]),
    [
      ['start', 30, 'it was stopped during its start'],
      ['stop', 5, null],
      ['start', 10, null],
    ],
  );
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { Connection } from '../connection/connection.ts';
import { LaunchReports } from './launch-reports.ts';
import type { Transition } from './state-machine.ts';

function moved(to: string): Transition {
  return { from: 'starting', to, reason: 'it has ended', failure: null, at: 7 } as unknown as Transition;
}

function endedWith(code: number, words: string): Connection {
  return { ended: { kind: 'exited', code, signal: null }, transport: { stderrTail: () => words } } as Connection;
}

test('S1.19 a start that failed is told whole, also while the next one is under way', () => {
  const reports = new LaunchReports({
    clock: new FakeClock(),
    logger: Logger.silent(),
    surroundings: { environment: {}, inContainer: false },
    times: { startupMs: 1_000 },
    server: () => serverNamed('dies'),
  });
  const told = (): unknown[] => {
    const failure = reports.lastFailure;
    return failure === null ? [] : [failure.error, failure.exit, failure.stderrTail];
  };
  reports.starting();
  assert.deepEqual(told(), []);
  reports.moved(moved('failed'));
  assert.deepEqual(told(), ['it has ended', null, '']);
  reports.ended(endedWith(3, 'no such file'));
  const first = ['it has ended', { code: 3, signal: null }, 'no such file'];
  assert.deepEqual(told(), first, 'what is left of its process may come after it');
  reports.starting();
  assert.deepEqual(told(), first);
  reports.ended(endedWith(4, 'no such folder'));
  assert.deepEqual(told(), first);
  reports.moved(moved('failed'));
  assert.deepEqual(told(), ['it has ended', { code: 4, signal: null }, 'no such folder']);
  reports.starting();
  reports.moved(moved('running'));
  assert.deepEqual(told(), []);
});

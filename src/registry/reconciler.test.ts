import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { Logger } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Reconciler } from './reconciler.ts';

function rig() {
  const clock = new FakeClock();
  const metrics = new Metrics();
  const lines: string[] = [];
  const logger = new Logger({ level: 'info', write: (line) => lines.push(line) });
  const reads: string[] = [];
  const failing = new Map<string, Error>();
  const hanging = new Map<string, Promise<void>>();
  const wrong: string[] = [];
  let repairs = 0;
  const source = (name: 'files' | 'store') => ({
    name,
    async read() {
      reads.push(name);
      await hanging.get(name);
      const error = failing.get(name);
      if (error !== undefined) throw error;
    },
  });
  const reconciler = new Reconciler({
    clock,
    metrics,
    logger,
    sources: [source('files'), source('store')],
    repair: () => {
      repairs++;
      return wrong.splice(0);
    },
  });
  const metric = (name: string) =>
    metrics
      .exposition()
      .split('\n')
      .find((line) => line.startsWith(name));
  return { clock, lines, reads, failing, hanging, wrong, reconciler, metric, repairs: () => repairs };
}

test('check:A8 the gateway reads the desired state every 30 s and compares it with what runs', async () => {
  const { clock, reads, reconciler, repairs } = rig();
  reconciler.start();
  await clock.advance(29_999);
  assert.deepEqual(reads, []);
  await clock.advance(1);
  assert.deepEqual([reads, repairs()], [['files', 'store'], 1]);
  await clock.advance(60_000);
  assert.deepEqual([reads.length, repairs()], [6, 3]);
  reconciler.close();
  await clock.advance(60_000);
  assert.equal(repairs(), 3);
  assert.equal(clock.pending, 0);
});

test('check:A8 a failed read raises an alarm in status, metric and log once per outage, and delays nothing else', async () => {
  const { failing, lines, reads, reconciler, metric, repairs } = rig();
  failing.set('store', new Error('no such disk'));
  await reconciler.run();
  await reconciler.run();
  assert.deepEqual([reads.length, repairs()], [4, 2]);
  assert.deepEqual(reconciler.alarms, ['what should run could not be read from the store: no such disk']);
  assert.match(metric('trunkline_desired_state_unread{source="store"}') ?? '', / 1$/);
  assert.match(metric('trunkline_desired_state_unread{source="files"}') ?? '', / 0$/);
  assert.equal(lines.filter((line) => line.includes('desired_state_unread')).length, 1);
  failing.clear();
  await reconciler.run();
  assert.deepEqual(reconciler.alarms, []);
  assert.match(metric('trunkline_desired_state_unread{source="store"}') ?? '', / 0$/);
  assert.equal(lines.filter((line) => line.includes('desired_state_read_again')).length, 1);
});

test('check:A8 a source that does not answer raises an alarm after 10 s, gets no second request meanwhile, and delays nothing else', async () => {
  const { clock, hanging, lines, reads, reconciler, metric, repairs } = rig();
  const { promise, resolve } = Promise.withResolvers<void>();
  hanging.set('files', promise);
  reconciler.start();
  await clock.advance(30_000);
  assert.deepEqual([reads, repairs(), reconciler.alarms], [['files'], 0, []]);
  await clock.advance(10_000);
  const alarm = 'what should run could not be read from the files: no answer within 10 s';
  assert.deepEqual([reads, repairs(), reconciler.alarms], [['files', 'store'], 1, [alarm]]);
  assert.match(metric('trunkline_desired_state_unread{source="files"}') ?? '', / 1$/);
  await clock.advance(80_000);
  assert.deepEqual([reads, repairs()], [['files', 'store', 'store', 'store'], 3]);
  assert.equal(lines.filter((line) => line.includes('desired_state_unread')).length, 1);
  hanging.clear();
  resolve();
  await clock.advance(0);
  assert.deepEqual(reconciler.alarms, []);
  await clock.advance(40_000);
  assert.deepEqual(reads.slice(-2), ['files', 'store']);
  reconciler.close();
});

test('a difference from the desired state is corrected, counted and reported', async () => {
  const { wrong, lines, reconciler, metric } = rig();
  wrong.push('a', 'b');
  await reconciler.run();
  assert.match(metric('trunkline_servers_repaired_total') ?? '', / 2$/);
  assert.ok(lines.some((line) => line.includes('servers_repaired') && line.includes('"a"')));
});

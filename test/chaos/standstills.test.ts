import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LOOP_WATCHER } from '../../src/cluster/lease/loop-watch.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { standstills, timeWithin } from './standstills.ts';

const at = (event: string, time: string, ms: number): string =>
  `{"time":"2026-01-01T00:00:${time}Z","level":"error","event":"${event}","ms":${ms}}\n`;
const origin = Date.parse('2026-01-01T00:00:00.000Z');

test('a process was frozen as a whole if neither its loop nor the thread that watches it ran, in any order of their reports', () => {
  const log = [
    at('node_gone', '01.000', 1_500),
    at('process_stood_still', '05.000', 1_600),
    at('loop_watch_stood_still', '05.010', 1_500),
    at('loop_watch_stood_still', '20.000', 9_000),
    at('process_stood_still', '20.100', 9_000),
  ].join('');
  assert.deepEqual(standstills(log, origin), [
    { from: 3_510, to: 5_000 },
    { from: 11_100, to: 20_000 },
  ]);
});

test('a loop that stood still while its watching thread ran was blocked, reported or not, also after a freeze', () => {
  assert.deepEqual(standstills(at('process_stood_still', '12.000', 2_000), origin), []);
  const blocked = at('event_loop_blocked', '11.000', 1_000) + at('process_stood_still', '12.000', 2_000);
  assert.deepEqual(standstills(blocked, origin), []);
  assert.deepEqual(standstills(at('loop_watch_stood_still', '12.000', 2_000), origin), []);
  const first = at('loop_watch_stood_still', '12.000', 3_000) + at('process_stood_still', '17.000', 8_000);
  assert.deepEqual(standstills(first, origin), [{ from: 9_000, to: 12_000 }]);
});

test('interleaved lines, and entries without a required member, are no evidence', () => {
  const log = [
    'a line that is no entry: "event":"process_stood_still"\n',
    '{"time":"2026-01-01T00:0{"event":"loop_watch_stood_still"}"event":"process_stood_still","ms":1600}\n',
    '{"time":"later","event":"process_stood_still","ms":1600}\n',
    '{"time":"2026-01-01T00:00:05.000Z","event":"process_stood_still"}\n',
    at('loop_watch_stood_still', '05.000', 1_600),
  ].join('');
  assert.deepEqual(standstills(log, origin), []);
});

test('the search matches what the gateway logs', () => {
  let log = '';
  const logger = new Logger({ level: 'info', write: (line) => (log += line) });
  logger.error('process_stood_still', { ms: 1_600 });
  assert.match(LOOP_WATCHER, /'loop_watch_stood_still'/);
  assert.equal(standstills(log + log.replace('process_', 'loop_watch_'), origin).length, 1);
});

test('only the frozen time within the given span counts', () => {
  const spans = [
    { from: 1_000, to: 2_000 },
    { from: 5_000, to: 6_000 },
  ];
  assert.equal(timeWithin(spans, { from: 1_500, to: 5_100 }), 600);
  assert.equal(timeWithin(spans, { from: 2_500, to: 4_000 }), 0);
});

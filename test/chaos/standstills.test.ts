import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Logger } from '../../src/telemetry/logger.ts';
import { standstills } from './standstills.ts';

const at = (event: string, time: string, ms: number): string =>
  `{"time":"2026-01-01T00:00:${time}Z","level":"error","event":"${event}","ms":${ms}}\n`;
const origin = Date.parse('2026-01-01T00:00:00.000Z');

test('a process that stood still as a whole is found in its log, with when; one whose loop alone was blocked is not', () => {
  const log = [
    at('node_gone', '01.000', 1_500),
    at('process_stood_still', '05.000', 1_600),
    at('event_loop_blocked', '11.000', 1_000),
    at('process_stood_still', '12.000', 2_000),
    'a line that is no entry: "event":"process_stood_still"\n',
  ].join('');
  assert.deepEqual(standstills(log, origin), [{ from: 3_400, to: 5_000 }]);
});

test('what the gateway logs of it is what is looked for', () => {
  let log = '';
  const logger = new Logger({ level: 'info', write: (line) => (log += line) });
  logger.error('process_stood_still', { ms: 1_600 });
  assert.equal(standstills(log, origin).length, 1);
});

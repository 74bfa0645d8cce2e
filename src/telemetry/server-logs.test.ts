import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Logger } from './logger.ts';
import { ServerLogs } from './server-logs.ts';

interface Line {
  readonly event: string;
  readonly [field: string]: unknown;
}

function bench() {
  const logger = Logger.silent();
  const logs = new ServerLogs(logger, 'r');
  const of = (server: string) => logs.journal.last(server, 1_000).map(({ json }) => JSON.parse(json) as Line);
  return { logger, logs, of };
}

test('log entries are kept at every level except debug, by server; those of no server under an empty name', () => {
  const { logger, logs, of } = bench();
  const a = logger.child({ server: 'a' });
  a.info('server_state', { state: 'running' });
  a.debug('noise');
  a.publish('server_stderr', { line: 'said' });
  logger.child({ server: 'b' }).warn('server_health', { health: 'unhealthy' });
  logger.info('config_applied');
  assert.deepEqual(
    of('a').map(({ event }) => event),
    ['server_state', 'server_stderr'],
  );
  assert.deepEqual(
    of('b').map(({ event, health }) => [event, health]),
    [['server_health', 'unhealthy']],
  );
  assert.deepEqual(
    of('').map(({ event }) => event),
    ['config_applied'],
  );
  logs.close();
  a.info('server_state', { state: 'stopped' });
  assert.equal(of('a').length, 2);
});

test('secrets are masked and control characters escaped at any depth', () => {
  const { logger, logs, of } = bench();
  const secret = 'canary-"quoted"-\u0001-9';
  logger.addSecret(secret);
  logger.child({ server: 'a' }).warn('server_start_failed', {
    error: new Error(`${secret} was no good\u001b[31m`),
    arguments: ['--key', secret, '\u202eturned'],
    exit: { code: 1, said: `\u009b${secret}` },
  });
  const text = JSON.stringify(logs.journal.last('a', 1));
  assert.ok(!text.includes('canary'), text);
  const [entry] = of('a');
  assert.deepEqual(entry?.['error'], { name: 'Error', message: '[redacted] was no good\\x1b[31m' });
  assert.deepEqual(entry?.['arguments'], ['--key', '[redacted]', '\\u202eturned']);
  assert.deepEqual(entry?.['exit'], { code: 1, said: '\\x9b[redacted]' });
});

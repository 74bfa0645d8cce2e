import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Logger } from './logger.ts';
import { ServerLogs } from './server-logs.ts';

interface Line {
  readonly event: string;
  readonly [field: string]: unknown;
}

function bench(): { readonly logger: Logger; readonly logs: ServerLogs; of(server: string): Line[]; at: number } {
  const written: string[] = [];
  const found = {
    at: 1_000,
    logger: new Logger({ level: 'error', write: (line) => written.push(line), now: () => found.at }),
    of: (server: string) => found.logs.journal.last(server, 1_000).map(({ json }) => JSON.parse(json) as Line),
  } as { logger: Logger; logs: ServerLogs; of(server: string): Line[]; at: number };
  found.logs = new ServerLogs(found.logger, 'r');
  return found;
}

test('log entries of a server are kept at every log level except debug, by server; under no name the others', () => {
  const { logger, logs, of } = bench();
  const a = logger.child({ server: 'a' });
  a.info('server_state', { state: 'running' });
  a.debug('noise');
  a.keep('server_stderr', { line: 'said' });
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

test('failed calls do not push out their cause: a few per second are kept, then a count of the rest', () => {
  const all = bench();
  const logger = all.logger.child({ server: 'a' });
  logger.info('server_state', { state: 'failed' });
  for (let i = 0; i < 5_000; i++) logger.info('call_failed', { code: 'NOT_SENT' });
  all.at += 1_000;
  logger.info('call_failed', { code: 'NOT_SENT' });
  const lines = all.of('a');
  assert.equal(lines[0]?.event, 'server_state');
  assert.equal(lines.length, 7);
  assert.equal(lines[6]?.['leftOut'], 4_995);
});

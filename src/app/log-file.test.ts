import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Logger } from '../telemetry/logger.ts';
import { LOG_FILE, LogFile, readLog } from './log-file.ts';

const MIB = 1024 * 1024;

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-log-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function eventsIn(folder: string): string[] {
  const lines = readLog(folder).trim().split('\n');
  return lines.map((line) => (JSON.parse(line) as { event: string }).event);
}

test('the log file keeps the records of earlier runs, without secrets and without output of servers', (t) => {
  const folder = folderOf(t);
  for (const event of ['first', 'second']) {
    const logger = Logger.silent();
    logger.addSecret('sk-123456789');
    const file = new LogFile(join(folder, LOG_FILE), logger);
    logger.info(event, { key: 'sk-123456789' });
    logger.debug('noise');
    logger.publish('server_stderr', { server: 's', line: 'x' });
    file.close();
    logger.info('after');
  }
  assert.deepEqual(eventsIn(folder), ['first', 'second']);
  assert.ok(!readLog(folder).includes('sk-123456789'));
  assert.equal(statSync(join(folder, LOG_FILE)).mode & 0o777, 0o600);
});

test('the log takes two files of 4 MiB at most, and keeps the newest records', (t) => {
  const folder = folderOf(t);
  const logger = Logger.silent();
  const file = new LogFile(join(folder, LOG_FILE), logger);
  const text = 'x'.repeat(MIB / 4);
  for (let i = 0; i < 60; i++) logger.info(`event_${i}`, { text });
  file.close();
  const bytes = readLog(folder).length;
  assert.ok(bytes > 3.5 * MIB && bytes <= 8 * MIB, `${bytes} bytes`);
  const events = eventsIn(folder);
  assert.equal(events.at(-1), 'event_59');
  assert.equal(events.length, 60 - Number(events[0]!.slice('event_'.length)), 'without a hole');
});

test('after a log file was removed or moved away, the next record goes to a new file', (t) => {
  const folder = folderOf(t);
  const path = join(folder, LOG_FILE);
  const logger = Logger.silent();
  const file = new LogFile(path, logger);
  logger.info('first', { text: 'x'.repeat(3 * MIB) });
  rmSync(path);
  logger.info('second', { text: 'x'.repeat(3 * MIB) });
  assert.deepEqual(eventsIn(folder), ['second']);
  renameSync(path, join(folder, 'moved'));
  logger.info('third');
  file.close();
  assert.deepEqual(eventsIn(folder), ['third']);
});

test('logging to a folder that does not exist does not throw', (t) => {
  const folder = folderOf(t);
  const logger = Logger.silent();
  const file = new LogFile(join(folder, 'gone', LOG_FILE), logger);
  logger.info('event');
  file.close();
  assert.equal(readLog(folder), '');
});

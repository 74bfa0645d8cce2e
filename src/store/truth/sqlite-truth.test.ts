import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { Logger } from '../../telemetry/logger.ts';
import { SqliteTruth } from './sqlite-truth.ts';
import { truthContract } from './truth.contract.ts';
import { TruthUnusable } from './truth-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'trunkline-truth-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const logger = Logger.silent();

function open(name: string, clock = new FakeClock()): SqliteTruth {
  return new SqliteTruth({ path: join(folder, name), clock, logger });
}

truthContract('SQLite', { open });

const change = [{ kind: 'put', collection: 'c', key: 'k', value: '1' }] as const;

test('there is no file until something is written, and only its user can read it and its snapshot', async () => {
  const clock = new FakeClock();
  const truth = open('private.db', clock);
  const path = join(folder, 'private.db');
  assert.equal(existsSync(path), false);
  await truth.apply(change);
  await clock.advance(1_000);
  await truth.close();
  for (const file of [path, `${path}.snapshot`]) assert.equal(statSync(file).mode & 0o777, 0o600, file);
});

test('a file that was removed or replaced under the gateway takes no change and is not taken for an empty one', async () => {
  const truth = open('lost.db');
  await truth.apply(change);
  rmSync(join(folder, 'lost.db'));
  await assert.rejects(truth.read(['c']), { fault: 'lost' });
  await assert.rejects(truth.apply(change), { fault: 'lost' });
  await truth.close();
});

test('a file of a later version is left alone', async () => {
  const truth = open('later.db');
  await truth.apply(change);
  await truth.close();
  const path = join(folder, 'later.db');
  const db = new DatabaseSync(path);
  db.exec('PRAGMA user_version = 99');
  db.close();
  assert.throws(
    () => open('later.db'),
    (error) => error instanceof TruthUnusable && /version 99/.test(error.message) && error.file === path,
  );
});

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, test } from 'node:test';
import { runTimeStoreContract } from '../../../test/contracts/run-time-store.contract.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { Logger } from '../../telemetry/logger.ts';
import { restoreStore, StoreUnusable } from './run-time-store-file.ts';
import { SqliteRunTimeStore } from './sqlite-run-time-store.ts';

const folder = mkdtempSync(join(tmpdir(), 'trunkline-truth-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const logger = Logger.silent();

function open(name: string, clock = new FakeClock()): SqliteRunTimeStore {
  return new SqliteRunTimeStore({ path: join(folder, name), clock, logger });
}

runTimeStoreContract('SQLite', { open });

const change = [{ kind: 'put', collection: 'c', key: 'k', value: '1' }] as const;

test('the first write creates the file, and only its user can read it and its snapshot', async () => {
  const clock = new FakeClock();
  const runTimeStore = open('private.db', clock);
  const path = join(folder, 'private.db');
  assert.equal(existsSync(path), false);
  await runTimeStore.apply(change);
  await clock.advance(1_000);
  await runTimeStore.close();
  for (const file of [path, `${path}.snapshot`]) assert.equal(statSync(file).mode & 0o777, 0o600, file);
});

test('a file that was removed or replaced under the gateway takes no change and does not count as empty', async () => {
  const runTimeStore = open('lost.db');
  await runTimeStore.apply(change);
  rmSync(join(folder, 'lost.db'));
  await assert.rejects(runTimeStore.read(['c']), { fault: 'lost' });
  await assert.rejects(runTimeStore.apply(change), { fault: 'lost' });
  await runTimeStore.close();
});

test('a file of a later version stays unchanged', async () => {
  const runTimeStore = open('later.db');
  await runTimeStore.apply(change);
  await runTimeStore.close();
  const path = join(folder, 'later.db');
  const db = new DatabaseSync(path);
  db.exec('PRAGMA user_version = 99');
  db.close();
  assert.throws(
    () => open('later.db'),
    (error) => error instanceof StoreUnusable && /version 99/.test(error.message) && error.file === path,
  );
});

test('two gateways open one file: both create it, each sees the other’s changes, and one of two first writes wins', async () => {
  const one = open('shared.db');
  const two = open('shared.db');
  const first = (value: string) => [{ kind: 'put', collection: 'c', key: 'first', value, expected: null }] as const;
  const both = await Promise.all([one.apply(first('1')), two.apply(first('2'))]);
  assert.deepEqual(both.map(({ ok }) => ok).sort(), [false, true]);
  await two.apply([{ kind: 'put', collection: 'c', key: 'more', value: '3' }]);
  const { revision, records } = await one.read(['c']);
  assert.equal(revision, 2);
  assert.deepEqual([...records.get('c')!.keys()], ['first', 'more']);
  await one.close();
  await two.close();
  const again = open('shared.db');
  assert.equal((await again.read(['c'])).records.get('c')!.size, 2);
  await again.close();
});

test('a file that another process keeps changing does not count as damaged', async (t) => {
  const path = join(folder, 'busy.db');
  const writer = spawn(process.execPath, [
    join(import.meta.dirname, '../../../test/faults/run-time-store-writer.ts'),
    path,
    '0',
  ]);
  t.after(() => writer.kill('SIGKILL'));
  const ended = new Promise((done) => writer.once('exit', done));
  let over = false;
  void ended.then(() => {
    over = true;
  });
  let openings = 0;
  while (!over) {
    const runTimeStore = open('busy.db');
    await runTimeStore.read(['server', 'suspended']);
    await runTimeStore.close();
    openings++;
    await new Promise((done) => setImmediate(done));
  }
  assert.equal(await ended, 0);
  assert.ok(openings > 0);
  const runTimeStore = open('busy.db');
  assert.ok((await runTimeStore.read(['server'])).records.get('server')!.size > 0);
  await runTimeStore.close();
});

test('the snapshot has every record a second after the change', async () => {
  const clock = new FakeClock();
  const runTimeStore = open('many.db', clock);
  for (let i = 0; i < 1_200; i += 600) {
    await runTimeStore.apply(
      Array.from({ length: 600 }, (_, j) => ({ kind: 'put', collection: 'c', key: `k${i + j}`, value: `${i + j}` })),
    );
  }
  const path = join(folder, 'many.db');
  assert.equal(existsSync(`${path}.snapshot`), false);
  // Left by a process that was killed; no process has this number.
  const unfinished = `${path}.snapshot.999999999.new`;
  writeFileSync(unfinished, 'half of one');
  await clock.advance(1_000);
  await runTimeStore.close();
  assert.equal(existsSync(unfinished), false);
  const { records, keptAs } = restoreStore(path, 'snapshot', 1_000);
  assert.equal(records, 1_200);
  assert.ok(keptAs !== null && existsSync(keptAs));
  const again = open('many.db');
  assert.equal((await again.read(['c'])).records.get('c')!.size, 1_200);
  await again.close();
});

test('a process finds the first write of another process, even if it has read nothing yet', async () => {
  const reader = open('later-made.db');
  assert.deepEqual(await reader.list('c'), []);
  const writer = open('later-made.db');
  await writer.apply(change);
  assert.equal((await reader.list('c'))[0]?.value, '1');
  assert.equal((await reader.read(['c'])).revision, 1);
  assert.deepEqual([reader.changedElsewhere(), reader.changedElsewhere()], [true, false]);
  await reader.apply([{ kind: 'put', collection: 'c', key: 'own', value: '1' }]);
  assert.equal(reader.changedElsewhere(), false, 'its own change');
  await writer.apply([{ kind: 'put', collection: 'c', key: 'other', value: '1' }]);
  assert.deepEqual([reader.changedElsewhere(), reader.changedElsewhere()], [true, false]);
  await writer.close();
  await reader.close();
});

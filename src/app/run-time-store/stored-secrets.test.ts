import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SealedRecords } from '../../credentials/credential-store.ts';
import { RecordSealing } from '../../gateway/sealer.ts';
import { systemClock } from '../../model/clock.ts';
import { systemRandom } from '../../model/random.ts';
import { CredentialKeys } from '../../store/credential-keys.ts';
import type { RunTimeStore } from '../../store/run-time-store/run-time-store.ts';
import { SqliteRunTimeStore } from '../../store/run-time-store/sqlite-run-time-store.ts';
import { Logger } from '../../telemetry/logger.ts';
import { KeyRotation } from './stored-secrets.ts';

const COLLECTIONS = ['credentials', 'logins', 'oauth_clients', 'secrets'] as const;

/** A data folder, as each process that opens it sees it. */
function folderOf(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-kept-keys-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const lines: string[] = [];
  const open = (wrapped: (store: RunTimeStore) => RunTimeStore = (store) => store) => {
    const logger = new Logger({ level: 'info', write: (line) => lines.push(line) });
    const store = new SqliteRunTimeStore({ path: join(folder, 'truth.db'), clock: systemClock, logger });
    t.after(() => store.close());
    const records = wrapped(store);
    const source = new CredentialKeys(join(folder, 'credentials.key'), () => systemRandom.hex(32));
    const sealing = new RecordSealing(source, systemRandom);
    const of = (collection: string) => new SealedRecords<object>(records, sealing, collection);
    return { of, source, keys: new KeyRotation({ source, records, sealing, clock: systemClock, logger }) };
  };
  const keyLines = () => readFileSync(join(folder, 'credentials.key'), 'utf8').trim().split('\n');
  return { open, keyLines, lines, file: (name: string) => join(folder, name) };
}

/** Simulates a crash: after this many changes, each further change throws. */
function crashingAfter(changes: number) {
  let left = changes;
  return (store: RunTimeStore): RunTimeStore =>
    new Proxy(store, {
      get: (target, name) => {
        const member = Reflect.get(target, name);
        if (name === 'apply' && left-- <= 0) throw new Error('crashed');
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
}

for (const changes of [0, 1, 5, 8, 11]) {
  test(`check:I7 fault:F35 a change of the key that ends after ${changes} of 12 records loses none of them`, async (t) => {
    const { open, keyLines, lines } = folderOf(t);
    const first = open();
    for (const collection of COLLECTIONS) {
      for (const key of ['a', 'b', 'c']) await first.of(collection).put(key, { of: `${collection} ${key}` });
    }
    const [before] = keyLines();
    await assert.rejects(open(crashingAfter(changes)).keys.rotate(), /crashed/);
    assert.deepEqual([keyLines().length, keyLines()[1]], [2, before]);

    const next = open();
    const opened = async () => {
      const all = await Promise.all(COLLECTIONS.map((collection) => next.of(collection).all()));
      return all.flat().map(({ key, value }) => `${key} ${JSON.stringify(value)}`).length;
    };
    assert.equal(await opened(), 12);
    await next.keys.settle();
    assert.match(lines.join(''), new RegExp(`credentials_sealed_anew.*"records":${12 - changes}`));
    assert.equal(keyLines().length, 1);
    assert.notEqual(keyLines()[0], before);
    assert.equal(await opened(), 12);
    // A process that has had the folder open all the time can read and write them too.
    assert.deepEqual((await first.of('secrets').get('b'))?.value, { of: 'secrets b' });
    await first.of('secrets').put('b', { of: 'later' });
    assert.deepEqual((await open().of('secrets').get('b'))?.value, { of: 'later' });
  });
}

test('check:I7 fault:F21 a record whose token is being exchanged is sealed again after the exchange; two changes at once lose nothing', async (t) => {
  const { open, keyLines } = folderOf(t);
  const { of, keys } = open();
  const exchangeUntil = systemClock.wall() + 60_000;
  const claimed = await of('credentials').put('web', { tokens: 'old', exchangeUntil });
  const rotated = Promise.all([keys.rotate(), keys.rotate()]);
  for (let looked = 0; keyLines().length < 2; looked++) {
    assert.ok(looked < 1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  // A process that may not know the new key yet writes the exchanged tokens over the claim.
  assert.notEqual(await open().of('credentials').put('web', { tokens: 'new', exchangeUntil: null }, claimed), null);
  assert.deepEqual(await rotated, [0, 1]);
  assert.equal(keyLines().length, 1);
  assert.deepEqual((await open().of('credentials').get('web'))?.value, { tokens: 'new', exchangeUntil: null });
});

test('check:I7 records that no key opens are distinguished from missing ones, and can be written again', async (t) => {
  const { open, file } = folderOf(t);
  await open().of('secrets').put('a', { value: '1' });
  writeFileSync(file('credentials.key'), `${systemRandom.hex(32)}\n`);
  const secrets = open().of('secrets');
  assert.deepEqual([await secrets.all(), secrets.unreadable], [[], ['a']]);
  assert.notEqual(await secrets.put('a', { value: '2' }, null), null);
  assert.equal(await secrets.put('a', { value: '3' }, null), null, 'a readable record exists already');
  assert.equal((await secrets.all()).length, 1);
  assert.deepEqual(secrets.unreadable, []);
});

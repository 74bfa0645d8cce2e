import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pin, pinRecordsContract } from '../../../test/contracts/pin-records.contract.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { type Pin, pinKey } from '../../model/drift.ts';
import { systemRandom } from '../../model/random.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { RunTimeStore } from './run-time-store.ts';
import { SqliteRunTimeStore } from './sqlite-run-time-store.ts';
import { MAX_DEFINITION_BYTES, StoredPins } from './stored-pins.ts';

const folder = mkdtempSync(join(tmpdir(), 'trunkline-pins-'));
const opened: RunTimeStore[] = [];
after(async () => {
  for (const runTimeStore of opened) await runTimeStore.close();
  rmSync(folder, { recursive: true, force: true });
});

function storeAt(name: string): RunTimeStore {
  const runTimeStore = new SqliteRunTimeStore({
    path: join(folder, name),
    clock: new FakeClock(),
    logger: Logger.silent(),
  });
  opened.push(runTimeStore);
  return runTimeStore;
}

/** One database per name, as several nodes would share it; each opening reads the disk first. */
const shared = new Map<string, RunTimeStore>();
pinRecordsContract('over the run-time store in SQLite', {
  open(name) {
    let runTimeStore = shared.get(name);
    if (runTimeStore === undefined) shared.set(name, (runTimeStore = storeAt(name)));
    return new StoredPins(runTimeStore, systemRandom);
  },
});

test('check:G4 pins survive the process that wrote them', async () => {
  const runTimeStore = storeAt('outlive.db');
  await new StoredPins(runTimeStore, systemRandom).save('s', {
    trustedAt: 1,
    pins: [pin('a')],
    removed: [],
    events: [],
  });
  await runTimeStore.close();
  const [own] = await new StoredPins(storeAt('outlive.db'), systemRandom).load();
  assert.deepEqual([...own!.pins.values()], [pin('a')]);
});

test('a node that reads the pins of others again keeps the objects of unchanged servers', async () => {
  const runTimeStore = storeAt('again.db');
  const [records, others] = [new StoredPins(runTimeStore, systemRandom), new StoredPins(runTimeStore, systemRandom)];
  const write = (server: string, pins: Pin[], removed: Pin[] = []) =>
    others.save(server, { trustedAt: 1, pins, removed, events: [] });
  const load = async () => new Map((await records.load()).map((pins) => [pins.server, pins]));
  await write('same', [pin('a'), pin('b')]);
  await write('other', [pin('a'), pin('b')]);
  await write('fewer', [pin('a'), pin('b')]);
  const first = await load();
  await write('other', [pin('b', { blocked: { at: 2, by: 'me' } })]);
  await write('fewer', [], [pin('b')]);
  const second = await load();
  assert.equal(second.get('same'), first.get('same'));
  const keyOf = pinKey(pin('b'));
  assert.deepEqual(second.get('other')!.pins.get(keyOf)!.blocked, { at: 2, by: 'me' });
  assert.deepEqual([...second.get('fewer')!.pins.values()], [pin('a')]);
  assert.equal((await load()).get('other'), second.get('other'));
});

test('check:G4 a definition too large to be stored is known by its digest', async () => {
  const records = new StoredPins(storeAt('large.db'), systemRandom);
  const definition = Buffer.from(`{"a":"${'x'.repeat(MAX_DEFINITION_BYTES)}"}`);
  const controls = Buffer.from(`{"a":"${'\u0001'.repeat(MAX_DEFINITION_BYTES - 100)}"}`);
  const approved = [definition, controls].map((bytes, i) => ({ digest: `d${i}`, definition: bytes, at: 1, by: 'me' }));
  assert.equal(await records.save('s', { pins: [pin('a', { approved })], removed: [], events: [] }), true);
  const kept = [...(await records.load())[0]!.pins.values()][0]!;
  assert.deepEqual(
    kept.approved.map(({ digest, definition: bytes }) => [digest, bytes]),
    [
      ['d0', null],
      ['d1', null],
    ],
  );
});

test('check:G4 unreadable records stop the load and do not count as empty', async () => {
  const runTimeStore = storeAt('broken.db');
  await runTimeStore.apply([
    {
      kind: 'put',
      collection: 'pins',
      key: 's/tools/a',
      value: '{"server":"s","list":"nonsense","key":"a","approved":[]}',
    },
  ]);
  await assert.rejects(new StoredPins(runTimeStore, systemRandom).load(), { fault: 'damaged' });
});

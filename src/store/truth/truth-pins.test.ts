import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pin, pinRecordsContract } from '../../../test/contracts/pin-records.contract.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { Logger } from '../../telemetry/logger.ts';
import { SqliteTruth } from './sqlite-truth.ts';
import type { Truth } from './truth.ts';
import { MAX_DEFINITION_BYTES, TruthPins } from './truth-pins.ts';

const folder = mkdtempSync(join(tmpdir(), 'trunkline-pins-'));
const opened: Truth[] = [];
after(async () => {
  for (const truth of opened) await truth.close();
  rmSync(folder, { recursive: true, force: true });
});

function truthAt(name: string): Truth {
  const truth = new SqliteTruth({ path: join(folder, name), clock: new FakeClock(), logger: Logger.silent() });
  opened.push(truth);
  return truth;
}

/** One database per name, as several nodes would share it; each opening begins with what is on the disk. */
const shared = new Map<string, Truth>();
pinRecordsContract('over Truth in SQLite', {
  open(name) {
    let truth = shared.get(name);
    if (truth === undefined) shared.set(name, (truth = truthAt(name)));
    return new TruthPins(truth);
  },
});

test('check:G4 pins outlive the process that wrote them', async () => {
  const truth = truthAt('outlive.db');
  await new TruthPins(truth).save('s', { trustedAt: 1, pins: [pin('a')], removed: [], events: [] });
  await truth.close();
  const [own] = await new TruthPins(truthAt('outlive.db')).load();
  assert.deepEqual([...own!.pins.values()], [pin('a')]);
});

test('check:G4 a definition too large to be kept is known by its digest', async () => {
  const records = new TruthPins(truthAt('large.db'));
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

test('check:G4 records that cannot be read stop the load; nothing is taken for empty', async () => {
  const truth = truthAt('broken.db');
  await truth.apply([
    {
      kind: 'put',
      collection: 'pins',
      key: 's/tools/a',
      value: '{"server":"s","list":"nonsense","key":"a","approved":[]}',
    },
  ]);
  await assert.rejects(new TruthPins(truth).load(), { fault: 'damaged' });
});

import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { restoreStore, StoreUnusable, snapshotPath } from '../../src/store/run-time-store/run-time-store-file.ts';
import { SqliteRunTimeStore } from '../../src/store/run-time-store/sqlite-run-time-store.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { Seeded } from '../chaos/seeded.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { manySided } from '../support/many-sided.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const SEED = 20_260_835;
const RECORDS = 80;

/** A run-time store that was written and closed normally, and damaged copies of it. */
class DamagedStore {
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-truth-damage-'));
  readonly #good: readonly string[];
  #count = 0;

  private constructor(t: TestContext, good: readonly string[]) {
    this.#good = good;
    t.after(() => rmSync(this.folder, { recursive: true, force: true }));
  }

  static async make(t: TestContext): Promise<DamagedStore> {
    const values = Array.from({ length: RECORDS }, (_, i) => JSON.stringify({ i, text: 'x'.repeat(i * 7) }));
    const made = new DamagedStore(t, values);
    const runTimeStore = open(made.source);
    for (let i = 0; i < RECORDS; i += 4) {
      await runTimeStore.apply(
        values.slice(i, i + 4).map((value, j) => ({ kind: 'put', collection: 'server', key: `k${i + j}`, value })),
      );
    }
    await runTimeStore.close();
    return made;
  }

  get source(): string {
    return join(this.folder, 'good.db');
  }

  bytes(): Buffer {
    return readFileSync(this.source);
  }

  /** Opens a file of these bytes. True when it was refused; otherwise it must have everything as it was written. */
  async refused(bytes: Uint8Array, what: string): Promise<boolean> {
    const path = join(this.folder, `damaged-${++this.#count}.db`);
    writeFileSync(path, bytes);
    copyFileSync(snapshotPath(this.source), snapshotPath(path));
    let runTimeStore: SqliteRunTimeStore;
    try {
      runTimeStore = open(path);
    } catch (error) {
      assert.ok(error instanceof StoreUnusable, `${what}: ${error}`);
      assert.ok(error.message.includes(path) && error.remedy.includes('trunkline restore'), what);
      assert.deepEqual(readFileSync(path), Buffer.from(bytes), `${what}: the file was touched`);
      await this.#restored(path, what);
      return true;
    }
    await this.#whole(runTimeStore, what);
    await runTimeStore.close();
    return false;
  }

  async #restored(path: string, what: string): Promise<void> {
    const { keptAs, records } = restoreStore(path, 'snapshot', 1_000);
    assert.equal(records, RECORDS, what);
    assert.ok(keptAs !== null && existsSync(keptAs), what);
    const runTimeStore = open(path);
    await this.#whole(runTimeStore, what);
    await runTimeStore.close();
  }

  async #whole(runTimeStore: SqliteRunTimeStore, what: string): Promise<void> {
    const { revision, records } = await runTimeStore.read(['server']);
    assert.equal(revision, RECORDS / 4, what);
    const found = records.get('server')!;
    assert.equal(found.size, RECORDS, `${what}: records are missing`);
    for (const [i, value] of this.#good.entries()) assert.equal(found.get(`k${i}`)?.value, value, what);
  }
}

function open(path: string): SqliteRunTimeStore {
  return new SqliteRunTimeStore({ path, clock: new FakeClock(), logger: Logger.silent() });
}

test('fault:F35 run-time store: 100 seeded bits flipped: refused with file and remedy, or everything is as written', async (t) => {
  const made = await DamagedStore.make(t);
  const random = new Seeded(SEED);
  let refused = 0;
  for (let i = 0; i < 100; i++) {
    const bytes = made.bytes();
    const at = random.below(bytes.length);
    bytes[at]! ^= 1 << random.below(8);
    if (await made.refused(bytes, `seed ${SEED}, flip ${i} at ${at}`)) refused++;
  }
  assert.ok(refused > 30, `only ${refused} of 100 flips were noticed`);
});

test('fault:F35 run-time store: a bit of every byte of the header flipped: refused, or as written', async (t) => {
  const made = await DamagedStore.make(t);
  for (let at = 0; at < 100; at++) {
    const bytes = made.bytes();
    bytes[at]! ^= 1 << (at % 8);
    await made.refused(bytes, `bit ${at % 8} of byte ${at}`);
  }
});

test('fault:F35 run-time store: cut at 50 offsets: refused every time', async (t) => {
  const made = await DamagedStore.make(t);
  const whole = made.bytes();
  for (let i = 0; i < 50; i++) {
    const cut = Math.floor((whole.length * i) / 50);
    assert.ok(await made.refused(whole.subarray(0, cut), `cut at ${cut}`), `cut at ${cut}: not noticed`);
  }
});

test('fault:F35 run-time store: a missing file with a snapshot is refused, too, and an older state of a page is noticed', async (t) => {
  const made = await DamagedStore.make(t);
  const before = made.bytes();
  rmSync(made.source);
  assert.throws(() => open(made.source), StoreUnusable);
  writeFileSync(made.source, before);
  const runTimeStore = open(made.source);
  await runTimeStore.apply([{ kind: 'put', collection: 'server', key: 'k70', value: '"other"' }]);
  await runTimeStore.close();
  const after = made.bytes();
  let stale = 0;
  for (let at = 4096; at < Math.min(before.length, after.length); at += 4096) {
    if (before.compare(after, at, at + 4096, at, at + 4096) === 0) continue;
    stale++;
    const mixed = Buffer.from(after);
    before.copy(mixed, at, at, at + 4096);
    writeFileSync(made.source, mixed);
    assert.throws(() => open(made.source), StoreUnusable, `page at ${at}`);
  }
  assert.ok(stale > 0);
});

test('fault:F35 a gateway does not start on a damaged run-time store, names the remedy, and starts again after it', async (t) => {
  const config = { mcpServers: { base: manySided('base', {}, { start: 'lazy' }) } };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  const added = await new RunTimeClient(gateway).add('kept', manySided('kept', {}, { start: 'lazy' }));
  assert.equal(added.status, 201);
  await gateway.stop();
  const data = join(gateway.folder, 'data');
  const file = join(data, 'truth.db');
  const bytes = readFileSync(file);
  bytes.fill(0xa5, 4_096, 4_196);
  writeFileSync(file, bytes);
  const arguments_ = ['--data-dir', data];
  for (let i = 0; i < 2; i++) {
    const run = await trunkline([...arguments_, '--port', '0', '--control-port', '0'], { cwd: gateway.folder });
    assert.equal(run.code, 1, run.err);
    assert.ok(run.err.includes(file) && run.err.includes('trunkline restore'), run.err);
    assert.deepEqual(readFileSync(file), bytes, 'the file was touched');
  }
  const restored = await trunkline(['restore', '--json', ...arguments_], { cwd: gateway.folder });
  assert.equal(restored.code, 0, restored.err);
  const reported = JSON.parse(restored.out);
  assert.ok(reported.records >= 1 && existsSync(reported.keptAs), restored.out);
  assert.deepEqual(readFileSync(reported.keptAs), bytes);
  const next = await RunningGateway.start({ config, folder: gateway.folder });
  t.after(() => next.stop());
  assert.deepEqual(await new RunTimeClient(next).names(), ['base', 'kept']);
  await next.stop();
  const emptied = await trunkline(['restore', '--empty', ...arguments_], { cwd: gateway.folder });
  assert.equal(emptied.code, 0, emptied.err);
  const last = await RunningGateway.start({ config, folder: gateway.folder });
  t.after(() => last.stop());
  assert.deepEqual(await new RunTimeClient(last).names(), ['base']);
  assert.ok(readdirSync(data).filter((name) => name.startsWith('truth.db.corrupt-')).length >= 2);
});

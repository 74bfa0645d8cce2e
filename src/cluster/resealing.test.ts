import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../test/support/fake-clock.ts';
import { openedLate } from '../../test/support/opened-late.ts';
import { MemorySharedState } from '../bus/memory/memory-shared-state.ts';
import { Sealer } from '../gateway/sealer.ts';
import { resealOutdated, sealingOf } from '../model/sealing.ts';
import { Logger } from '../telemetry/logger.ts';
import { Resealing } from './resealing.ts';

const OLD = Buffer.alloc(32, 1);
const NEW = Buffer.alloc(32, 2);

class Bench {
  readonly clock = new FakeClock();
  readonly #state = new MemorySharedState(this.clock);
  readonly lines: string[] = [];
  /** The store does not answer. */
  away = false;
  readonly bucket = openedLate('secrets', async () => {
    if (this.away) throw new Error('no answer');
    return this.#state.bucket('secrets', { ttlMs: 0 });
  });

  node(...keys: Buffer[]): Resealing {
    const sealing = sealingOf(keys, (key) => new Sealer(key));
    const logger = new Logger({ level: 'info', write: (line) => this.lines.push(line) });
    return new Resealing({
      bucket: this.bucket,
      sealing,
      clock: this.clock,
      logger,
      reseal: ({ key, value }) => resealOutdated(sealing, key, value.toString()),
    });
  }

  async write(by: Buffer, name: string): Promise<void> {
    const text = Buffer.from(new Sealer(by).seal(name, `text of ${name}`));
    const there = await this.bucket.get(name);
    if (there === null) await this.bucket.create(name, text);
    else await this.bucket.update(name, text, there.revision);
  }

  async openedBy(key: Buffer): Promise<number> {
    let opened = 0;
    for (const name of await this.bucket.keys('>')) {
      const record = await this.bucket.get(name);
      if (new Sealer(key).open(name, record!.value.toString()) === `text of ${name}`) opened++;
    }
    return opened;
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 1_000) {
      await this.clock.advance(1_000);
      await settled();
    }
  }

  said(event: string): number {
    return this.lines.filter((line) => line.includes(`"${event}"`)).length;
  }
}

test('records of the previous secret are sealed again with the current one, once, and the end is logged', async () => {
  const bench = new Bench();
  for (let i = 0; i < 100; i++) await bench.write(i % 2 === 0 ? OLD : NEW, `r${i}`);
  await bench.bucket.create('strange', Buffer.from('nobody’s'));
  const before = (await bench.bucket.get('r1'))!.revision;
  const node = bench.node(NEW, OLD);
  await bench.pass(15_000);
  assert.equal(await bench.openedBy(NEW), 100);
  assert.equal((await bench.bucket.get('r1'))!.revision, before, 'a record of the current secret stays as it is');
  assert.equal((await bench.bucket.get('strange'))!.value.toString(), 'nobody’s');
  assert.deepEqual([bench.said('records_sealed_anew'), bench.said('previous_secret_unused')], [1, 1]);
  // A node whose current secret is still the old one writes once more.
  await bench.write(OLD, 'late');
  await bench.pass(610_000);
  assert.equal(await bench.openedBy(OLD), 0);
  assert.deepEqual([bench.said('records_sealed_anew'), bench.said('previous_secret_unused')], [2, 2]);
  await bench.pass(1_300_000);
  assert.equal(bench.said('previous_secret_unused'), 2, 'it is not logged again');
  node.close();
});

test('nodes with different current secrets lose nothing; the last restarted node decides', async () => {
  const bench = new Bench();
  for (let i = 0; i < 40; i++) await bench.write(OLD, `r${i}`);
  const [first, second] = [bench.node(OLD, NEW), bench.node(NEW, OLD)];
  await bench.pass(60_000);
  assert.equal((await bench.openedBy(OLD)) + (await bench.openedBy(NEW)), 40);
  first.close();
  const last = bench.node(NEW, OLD);
  bench.lines.length = 0;
  await bench.pass(30_000);
  assert.equal(await bench.openedBy(NEW), 40);
  assert.ok(bench.said('previous_secret_unused') >= 1);
  for (const node of [second, last]) node.close();
});

test('a store that does not answer is asked again, and nothing is logged meanwhile', async () => {
  const bench = new Bench();
  await bench.write(OLD, 'one');
  bench.away = true;
  await bench.bucket.readIncarnation().catch(() => {});
  const node = bench.node(NEW, OLD);
  await bench.pass(35_000);
  assert.deepEqual(bench.lines, []);
  bench.away = false;
  await bench.pass(25_000);
  assert.equal(await bench.openedBy(NEW), 1);
  assert.equal(bench.said('previous_secret_unused'), 1);
  node.close();
});

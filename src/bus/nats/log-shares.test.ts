import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { LogShares, type LogsState } from './log-shares.ts';

const MIB = 1024 * 1024;
const SHARE = 4 * MIB;
/** The size of an entry. */
const SIZE = 64 * 1024;

/** A store whose entries have positions in a row. */
class Bench {
  readonly clock = new FakeClock();
  readonly drops: string[] = [];
  state: LogsState = { incarnation: '1', bytes: 0, position: 0 };
  away = false;
  /** The group whose entries cannot be deleted. */
  keeps = '';
  asked = 0;
  readonly shares = new LogShares(
    {
      maxBytes: 16 * SHARE,
      maxAgeMs: 300_000,
      state: async () => {
        this.asked++;
        // Entries that are written in the same turn are stored when the store answers.
        await null;
        if (this.away) throw new Error('the store is away');
        return this.state;
      },
      drop: async (group, upTo) => {
        if (group === this.keeps) throw new Error('for the test');
        this.drops.push(`${group} ${upTo}`);
      },
    },
    this.clock,
  );

  /** Returns the number of accepted entries. */
  write(name: string, count: number): number {
    let taken = 0;
    while (taken < count && this.shares.take(name, SIZE)) taken++;
    this.state = { ...this.state, position: this.state.position + taken };
    return taken;
  }

  async pass(ms: number): Promise<string[]> {
    await settled();
    for (let passed = 0; passed < ms; passed += 25) {
      await this.clock.advance(25);
      await settled();
    }
    return this.drops.splice(0);
  }
}

test('a group above its share loses its oldest entries, other groups lose none', async () => {
  const bench = new Bench();
  bench.write('few', 60);
  await bench.pass(100);
  bench.write('many', 70);
  assert.deepEqual(await bench.pass(100), ['many 66']);
  bench.write('few', 3);
  assert.deepEqual(await bench.pass(3_000), []);
  bench.write('many', 1);
  assert.deepEqual(await bench.pass(3_000), ['many 67'], 'also after a small write');
});

test('a group that grows faster than its oldest entries are deleted refuses entries until then', async () => {
  const bench = new Bench();
  assert.equal(bench.write('many', 1_000), 129);
  assert.equal(bench.write('few', 1), 1);
  await bench.pass(100);
  assert.equal(bench.write('many', 10), 10);
});

test('while the logs are nearly full the largest group has a smaller share, and its full share later', async () => {
  const bench = new Bench();
  bench.write('few', 10);
  await bench.pass(100);
  bench.write('many', 60);
  bench.state = { ...bench.state, bytes: 13 * SHARE };
  assert.deepEqual(await bench.pass(25), ['many 38', 'many 54'], 'half of a share is left, then a quarter');
  bench.state = { ...bench.state, bytes: SHARE };
  await bench.pass(20_000);
  bench.write('many', 30);
  assert.deepEqual(await bench.pass(3_000), []);
});

test('positions in a lost store delete nothing, and entries written during an outage count', async () => {
  const bench = new Bench();
  bench.write('many', 60);
  await bench.pass(100);
  bench.state = { incarnation: '2', bytes: 0, position: 0 };
  await bench.pass(3_000);
  bench.write('many', 60);
  assert.deepEqual(await bench.pass(3_000), []);
  bench.away = true;
  bench.write('many', 10);
  assert.deepEqual(await bench.pass(3_000), []);
  bench.away = false;
  assert.deepEqual(await bench.pass(3_000), ['many 6']);
});

test('a group whose entries have all expired causes no requests to the store', async () => {
  const bench = new Bench();
  bench.write('many', 60);
  await bench.pass(303_000);
  bench.asked = 0;
  await bench.pass(10_000);
  assert.equal(bench.asked, 0);
  bench.write('many', 10);
  assert.deepEqual(await bench.pass(3_000), []);
  bench.shares.close();
});

test('entries that could not be deleted are deleted later', async () => {
  const bench = new Bench();
  bench.keeps = 'one';
  bench.write('one', 70);
  bench.write('two', 70);
  assert.deepEqual(await bench.pass(1_000), []);
  bench.keeps = '';
  assert.deepEqual(await bench.pass(3_000), ['one 12', 'two 12']);
  assert.deepEqual(await bench.pass(3_000), []);
});

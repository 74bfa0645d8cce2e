import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SqliteEventLog } from '../../src/store/event-log.ts';
import { StateFile } from '../../src/store/state-file.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { FaultBench } from './fault-bench.ts';

const BUCKETS = ['session', 'era', 'catalog', 'task', 'key'];
const ROWS = 60;
const SEED = 20_260_735;

test('fault:F35 100 seeded bits flipped: it opens, kept values are right, lost ones caused a warning, the next start has none', (t) => {
  const made = new DamagedState(t);
  const whole = made.bytes();
  const random = seeded(SEED);
  let noticed = 0;
  for (let i = 0; i < 100; i++) {
    const bytes = Buffer.from(whole);
    const at = Math.floor(random() * bytes.length);
    bytes[at]! ^= 1 << Math.floor(random() * 8);
    if (made.checked(bytes, `seed ${SEED}, flip ${i} at ${at}`)) noticed++;
  }
  assert.ok(noticed > 30, `only ${noticed} of 100 flips were noticed`);
});

test('fault:F35 a bit of every byte of the header, and of many of the tables’ definitions, flipped: the same', (t) => {
  const made = new DamagedState(t);
  const whole = made.bytes();
  // The definitions are at the end of the first page.
  const offsets = [...Array(100).keys(), ...Array.from({ length: 40 }, (_, i) => 4_090 - i * 12)];
  for (const [i, at] of offsets.entries()) {
    const bytes = Buffer.from(whole);
    bytes[at]! ^= 1 << (i % 8);
    made.checked(bytes, `bit ${i % 8} of byte ${at}`);
  }
});

test('fault:F35 cut at 50 offsets: set aside with a warning', (t) => {
  const made = new DamagedState(t);
  const whole = made.bytes();
  for (let i = 0; i < 50; i++) {
    const cut = Math.floor((whole.length * i) / 50);
    assert.ok(made.checked(whole.subarray(0, cut), `cut at ${cut}`), `cut at ${cut}: not noticed`);
  }
});

test('fault:F35 the write-ahead log of a killed gateway damaged: kept values are right, the next start has no warning', (t) => {
  const made = new DamagedState(t, true);
  const whole = made.bytes();
  const wal = readFileSync(`${made.source}-wal`);
  const random = seeded(SEED + 1);
  assert.ok(wal.length > 100_000);
  for (let i = 0; i < 40; i++) {
    const bytes = Buffer.from(i % 4 === 0 ? wal.subarray(0, Math.floor(random() * wal.length)) : wal);
    if (i % 4 > 0) bytes[Math.floor(random() * bytes.length)]! ^= 1 << Math.floor(random() * 8);
    // SQLite treats the log after a wrong checksum as unfinished, as after a power cut.
    made.checked(whole, `seed ${SEED + 1}, log ${i}`, bytes);
  }
});

test('fault:F35 a gateway on a damaged state file starts, serves, warns once, and keeps the file', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  const client = await bench.opened('one');
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  await bench.gateway.stop();
  const data = join(bench.gateway.folder, 'data');
  const file = join(data, 'state.db');
  const bytes = readFileSync(file);
  // Damages the root page of the first table, and cuts half a page off the end.
  bytes.fill(0xa5, 4_096, 4_196);
  const damaged = bytes.subarray(0, bytes.length - 2_048);
  writeFileSync(file, damaged);
  await bench.start({ one: bench.stdio('one') });
  assert.match(bench.gateway.stderr, /state_set_aside/);
  const aside = readdirSync(data).filter((name) => name.includes('.corrupt-') && !/-(?:wal|shm)$/.test(name));
  assert.equal(aside.length, 1);
  assert.ok(bench.gateway.stderr.includes(aside[0]!));
  assert.deepEqual(readFileSync(join(data, aside[0]!)), damaged);
  await client.open();
  const session = client.sessionId;
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  await bench.gateway.stop();
  await bench.start({ one: bench.stdio('one') });
  assert.doesNotMatch(bench.gateway.stderr, /state_set_aside/);
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  assert.equal(client.sessionId, session);
  assert.deepEqual(bench.violations(['one']), []);
});

/** A state file with rows of every kind, and copies of it with damage. */
class DamagedState {
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-state-'));
  readonly source = join(this.folder, 'source.db');
  readonly #records = new Map<string, string>();
  readonly #clock = new FakeClock();
  readonly #eventIds: string[] = [];

  /** `killed`: nothing of the write-ahead log is in the file yet. */
  constructor(t: TestContext, killed = false) {
    t.after(() => rmSync(this.folder, { recursive: true, force: true }));
    const path = killed ? join(this.folder, 'running.db') : this.source;
    const state = this.#open(path).state;
    const log = new SqliteEventLog(state, this.#clock);
    for (const bucket of BUCKETS) {
      for (let i = 0; i < ROWS; i++) {
        const value = `${bucket} ${i} `.repeat(20 + i);
        this.#records.set(`${bucket}\0key ${i}`, value);
        state.put(bucket, `key ${i}`, Buffer.from(value));
      }
      state.flush();
    }
    for (let i = 0; i < ROWS; i++) this.#eventIds.push(log.append('s', 'a', Buffer.from(`event ${i} `.repeat(30))));
    log.close();
    state.flush();
    if (!killed) {
      state.close();
      return;
    }
    for (const suffix of ['', '-wal']) copyFileSync(path + suffix, this.source + suffix);
    state.close();
  }

  bytes(): Buffer {
    return readFileSync(this.source);
  }

  /** Opens a copy, reads it whole, writes to it, and opens it again. True if a warning was logged. */
  checked(bytes: Buffer, what: string, wal: Buffer | null = null): boolean {
    const path = join(this.folder, 'copy.db');
    for (const name of readdirSync(this.folder)) if (name.startsWith('copy.db')) rmSync(join(this.folder, name));
    writeFileSync(path, bytes);
    if (wal !== null) writeFileSync(`${path}-wal`, wal);
    const first = this.#open(path);
    let found = 0;
    for (const bucket of BUCKETS) {
      for (const [key, value] of first.state.all(bucket)) {
        assert.equal(value.toString(), this.#records.get(`${bucket}\0${key}`), `${what}: ${bucket} ${key}`);
        found++;
      }
    }
    const events = first.state.prepare('SELECT seq, message FROM events ORDER BY seq').all() as {
      seq: number;
      message: Uint8Array;
    }[];
    for (const { seq, message } of events) {
      assert.equal(Buffer.from(message).toString(), `event ${seq - 1} `.repeat(30), what);
    }
    found += events.length;
    const warned = first.lines.join('');
    const complete = found === this.#records.size + this.#eventIds.length;
    if (wal === null) assert.ok(complete || warned !== '', `${what}: ${found} rows found, and no warning`);
    if (/state_set_aside/.test(warned)) {
      const kept = readdirSync(this.folder).filter((name) => /^copy\.db\.corrupt-\d+$/.test(name));
      assert.equal(kept.length, 1, what);
      // SQLite moves the valid part of the log into the file before it closes the file.
      if (wal === null) assert.equal(readFileSync(join(this.folder, kept[0]!)).length, bytes.length, what);
    }
    assert.doesNotMatch(warned, /state_in_memory/, what);
    first.state.put('after', 'damage', Buffer.from('kept'));
    first.state.close();
    const second = this.#open(path);
    assert.deepEqual(second.lines, [], `${what}: the next start logs a warning`);
    assert.equal(second.state.get('after', 'damage')?.toString(), 'kept', what);
    second.state.close();
    assert.ok(existsSync(path), what);
    return warned !== '';
  }

  #open(path: string): { state: StateFile; lines: string[] } {
    const lines: string[] = [];
    const logger = new Logger({ level: 'warn', write: (line) => lines.push(line) });
    return { lines, state: new StateFile({ path, clock: this.#clock, logger }) };
  }
}

/** Mulberry32: small, and the same everywhere. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { MemorySharedLog } from '../../bus/memory/memory-shared-log.ts';
import type { OrphanedStream, StreamCopy, UnansweredRequest } from '../../model/stream-copies.ts';
import { packFrame } from '../frames/frame.ts';
import { readOrphanedStream, StreamCopyWriter, takeOverStream } from './stream-copies.ts';

const NAME = 'p0123abcd.0123456789abcdef1';
const OWED: UnansweredRequest = { id: '7', method: 'tools/call' };
const idOf = (seq: number): string => `${NAME}~${seq.toString(36)}`;

class OutageLog extends MemorySharedLog {
  away = false;

  override append(name: string, entry: Buffer): boolean {
    return !this.away && super.append(name, entry);
  }

  override async read(name: string): ReturnType<MemorySharedLog['read']> {
    if (this.away) throw new Error('the log is away');
    return super.read(name);
  }
}

class Bench {
  readonly clock = new FakeClock();
  readonly log = new OutageLog();
  readonly copies = new StreamCopyWriter(this.log, this.clock);
  owed: UnansweredRequest[] = [];

  begin(name = NAME): StreamCopy {
    return this.copies.begin({ name, sessionId: 's', principal: 'p', unanswered: () => this.owed });
  }

  after(seq: number, sessionId = 's', principal = 'p'): Promise<OrphanedStream | null> {
    return readOrphanedStream(this.log, sessionId, principal, idOf(seq));
  }

  /** The events after this one: their numbers and messages, `-` for one that is not there, with the request it answered. */
  async said(seq: number): Promise<string[]> {
    const left = await this.after(seq);
    return (left?.events ?? []).map(({ eventId, message, answers }) => {
      const number = eventId === null ? '?' : String(Number.parseInt(eventId.slice(eventId.indexOf('~') + 1), 36));
      return `${number} ${message ?? '-'}${message === null && answers !== null ? ` ${answers.id}` : ''}`;
    });
  }

  async entries(): Promise<number> {
    return (await this.log.read(NAME)).entries.length;
  }
}

const text = (value: string): Buffer => Buffer.from(value);

test('check:C9 messages within 10 ms are one entry; only its session reads it, after any event of it', async () => {
  const bench = new Bench();
  bench.owed = [OWED];
  const copy = bench.begin();
  // The memory of a message may be used again as soon as it is sent.
  const lent = text('one');
  copy.add(idOf(10), Buffer.alloc(0), null);
  copy.add(idOf(40), lent, null);
  lent.fill('x');
  assert.equal(await bench.entries(), 0);
  await bench.clock.advance(10);
  copy.add(idOf(50), text('two'), OWED);
  bench.owed = [];
  copy.end();
  await bench.clock.advance(10);
  assert.equal(await bench.entries(), 2);
  assert.deepEqual(await bench.said(10), ['40 one', '50 two']);
  assert.deepEqual(await bench.said(40), ['50 two']);
  assert.deepEqual(await bench.said(50), []);
  assert.deepEqual((await bench.after(10))?.unanswered, []);
  assert.equal(await bench.after(10, 'other'), null);
  assert.equal(await bench.after(10, 's', 'other'), null);
  for (const id of [
    '',
    '~',
    'nonsense',
    `${NAME}~`,
    `${NAME}.>~1`,
    `>~1`,
    NAME.replace('p', 'x'),
    `${NAME}0~a`,
    `${NAME}~0a`,
  ]) {
    assert.equal(await readOrphanedStream(bench.log, 's', 'p', id), null, id);
  }
});

test('check:C9 the copy has the unanswered requests of the latest state', async () => {
  const bench = new Bench();
  const other = { id: '"8"', method: 'prompts/get' };
  bench.owed = [OWED, other];
  const copy = bench.begin();
  copy.add(idOf(1), text('one'), null);
  await bench.clock.advance(10);
  bench.owed = [other];
  copy.add(idOf(2), text('answer'), OWED);
  await bench.clock.advance(10);
  assert.deepEqual((await bench.after(1))?.unanswered, [other]);
  // The request was cancelled: no message is sent for it.
  bench.owed = [];
  copy.end();
  await bench.clock.advance(10);
  assert.deepEqual((await bench.after(1))?.unanswered, []);
  assert.deepEqual(await bench.said(1), ['2 answer']);
});

test('check:C9 check:H5 entries that were too large, dropped or removed are reported as missing at their place', async () => {
  const bench = new Bench();
  bench.owed = [OWED];
  const copy = bench.begin();
  const say = (seq: number, message: Buffer, answers: UnansweredRequest | null = null): void => {
    copy.add(idOf(seq), message, answers);
    bench.copies.flush();
  };
  say(1, text('one'));
  say(2, Buffer.alloc(512 * 1024 + 1));
  say(3, text('three'));
  bench.log.away = true;
  say(4, text('four'));
  bench.owed = [];
  say(5, text('answer'), OWED);
  bench.log.away = false;
  say(6, text('six'));
  assert.deepEqual(await bench.said(1), ['2 -', '3 three', '? -', '6 six', '? - 7']);
  // A client that received event 3 has missed only the later events.
  assert.deepEqual(await bench.said(3), ['? -', '6 six', '? - 7']);
  assert.deepEqual(await bench.said(6), []);
  for (let seq = 7; seq < 1_200; seq++) say(seq, text('more'));
  const said = await bench.said(1);
  assert.equal(said[0], '? -');
  assert.equal(said.length, 1_025);
  say(1_200, Buffer.alloc(512 * 1024 + 1), OWED);
  assert.deepEqual(await bench.said(1_199), ['1200 - 7']);
});

test('check:C9 a large amount goes in entries that the log accepts', async () => {
  const bench = new Bench();
  const copy = bench.begin();
  for (let seq = 1; seq <= 8; seq++) copy.add(idOf(seq), Buffer.alloc(300 * 1024, `${seq}`), null);
  for (let seq = 9; seq <= 2_000; seq++) copy.add(idOf(seq), text('x'), null);
  await bench.clock.advance(10);
  const events = (await bench.after(1))!.events;
  assert.equal(events.length, 1_999);
  assert.ok(events.every(({ message }) => message !== null));
  assert.ok((await bench.log.read(NAME)).entries.every(({ length }) => length < 1024 * 1024 - 64 * 1024));
});

test('check:C9 a stream is taken over once, and late entries of its node do not count', async () => {
  const bench = new Bench();
  const copy = bench.begin();
  copy.add(idOf(1), text('one'), null);
  copy.add(idOf(2), text('two'), null);
  await bench.clock.advance(10);
  const left = (await bench.after(1))!;
  assert.equal(left.next, null);
  const taken = await Promise.all(['g1~1', 'g2~1', 'g3~1'].map((next) => takeOverStream(bench.log, left, next)));
  assert.equal(taken.filter((done) => done).length, 1);
  copy.add(idOf(3), text('late'), null);
  await bench.clock.advance(10);
  const again = (await bench.after(1))!;
  assert.equal(again.next, ['g1~1', 'g2~1', 'g3~1'][taken.indexOf(true)]);
  assert.deepEqual(await bench.said(1), ['2 two']);
  assert.equal(await takeOverStream(bench.log, again, 'g4~1'), false);
});

test('messages on a stream that another node may take over are copied at once', async () => {
  const bench = new Bench();
  const copy = bench.begin();
  copy.add(idOf(1), text('one'), null);
  copy.add(idOf(2), text('two'), null);
  assert.equal(await bench.entries(), 0);
  copy.hurry();
  copy.add(idOf(3), text('three'), null);
  assert.deepEqual(await bench.said(1), ['2 two', '3 three']);
  copy.hurry();
  await bench.clock.advance(10);
  assert.equal(await bench.entries(), 2);
});

test('an unreadable log, or one without valid entries, gives nothing', async () => {
  const bench = new Bench();
  bench.begin().add(idOf(1), text('one'), null);
  await bench.clock.advance(10);
  bench.log.away = true;
  assert.equal(await bench.after(1), null);
  bench.log.away = false;
  bench.log.append(NAME, Buffer.concat(packFrame({ kind: 'newer', sessionId: 's', principal: 'p' })));
  assert.deepEqual(await bench.said(0), ['1 one']);
  bench.log.append(NAME, text('nonsense'));
  assert.equal(await bench.after(1), null);
});

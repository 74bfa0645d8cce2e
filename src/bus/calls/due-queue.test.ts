import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { Deadline } from './call-transport.ts';
import { type DueItem, DueQueue } from './due-queue.ts';

/** Something that may wait, by name. */
class Named implements DueItem {
  readonly name: string;
  dueAt = 0;
  earlier: DueItem | null = null;
  later: DueItem | null = null;
  readonly #due: (name: string) => void;

  constructor(name: string, due: (name: string) => void) {
    this.name = name;
    this.#due = due;
  }

  due(): void {
    this.#due(this.name);
  }
}

test('each entry falls due in its own time, on one timer, and removed ones do not', async () => {
  const clock = new FakeClock();
  const due: string[] = [];
  const queue = new DueQueue(clock, 100);
  const tell = (name: string): void => void due.push(name);
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => new Named(name, tell)) as [Named, Named, Named, Named];
  queue.add(a);
  await clock.advance(40);
  queue.add(b);
  queue.add(c);
  assert.equal(clock.pending, 1);
  await clock.advance(59);
  assert.deepEqual(due, []);
  await clock.advance(1);
  assert.deepEqual(due, ['a']);
  queue.delete(b);
  queue.delete(b);
  queue.delete(a);
  queue.delete(d);
  await clock.advance(39);
  assert.deepEqual(due, ['a']);
  await clock.advance(1);
  assert.deepEqual(due, ['a', 'c']);
  assert.equal(clock.pending, 0);
  queue.add(d);
  await clock.advance(100);
  assert.deepEqual(due, ['a', 'c', 'd']);
});

test('an entry added by a due one is not lost', async () => {
  const clock = new FakeClock();
  const due: string[] = [];
  const queue = new DueQueue(clock, 100);
  const another = (name: string): void => {
    due.push(name);
    if (name < '3') queue.add(new Named(`${Number(name) + 1}`, another));
  };
  queue.add(new Named('1', another));
  await clock.advance(300);
  assert.deepEqual(due, ['1', '2', '3']);
});

test('entries can be removed in any order, and the others keep theirs', async () => {
  for (const out of [[0], [4], [2], [0, 1], [3, 4], [1, 3], [4, 3, 2, 1, 0], [0, 2, 4, 1]]) {
    const clock = new FakeClock();
    const due: string[] = [];
    const queue = new DueQueue(clock, 100);
    const tell = (name: string): void => void due.push(name);
    const all = Array.from({ length: 5 }, (_, at) => new Named(`${at}`, tell));
    for (const item of all) queue.add(item);
    for (const at of out) queue.delete(all[at]!);
    queue.add(new Named('again', tell));
    await clock.advance(100);
    assert.deepEqual(
      due,
      [
        ...all
          .keys()
          .filter((at) => !out.includes(at))
          .map(String),
        'again',
      ],
      `${out}`,
    );
    assert.ok(all.every(({ earlier, later }) => earlier === null && later === null));
  }
});

test('a deadline is met to the millisecond, and has a timer only in its last second', async () => {
  const clock = new FakeClock();
  let expired = 0;
  const deadline = new Deadline(clock, 3_300, { expired: () => expired++ });
  for (let second = 0; second < 3; second++) {
    assert.equal(clock.pending, second < 3 ? 0 : 1);
    await clock.advance(1_000);
    deadline.tick();
  }
  deadline.tick();
  assert.equal(clock.pending, 1);
  await clock.advance(299);
  assert.equal(expired, 0);
  await clock.advance(1);
  assert.equal(expired, 1);
  const short = new Deadline(clock, 500, { expired: () => expired++ });
  assert.equal(clock.pending, 1);
  short.stop();
  const late = new Deadline(clock, 2_000, { expired: () => expired++ });
  clock.skip(60_000);
  late.tick();
  await clock.advance(0);
  assert.equal(expired, 2);
});

test('what falls due while the process stands still is given time, where the queue says so', async () => {
  for (const hearMs of [0, 50]) {
    const clock = new FakeClock();
    const due: string[] = [];
    const queue = new DueQueue(clock, 100, hearMs);
    const [a, b, c] = ['a', 'b', 'c'].map((name) => new Named(name, (one) => void due.push(one)));
    queue.add(a!);
    queue.add(b!);
    clock.skip(90);
    queue.add(c!);
    clock.skip(500);
    await clock.advance(0);
    assert.deepEqual(due, hearMs === 0 ? ['a', 'b', 'c'] : []);
    queue.delete(b!);
    await clock.advance(hearMs);
    assert.deepEqual(due, hearMs === 0 ? ['a', 'b', 'c'] : ['a', 'c']);
    assert.equal(clock.pending, 0);
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { DelayQueue, type DelayQueueItem } from './delay-queue.ts';

class Member implements DelayQueueItem {
  dueAt = 0;
  earlier: DelayQueueItem | null = null;
  later: DelayQueueItem | null = null;
  readonly #reported: string[];
  readonly #name: string;

  constructor(reported: string[], name: string) {
    this.#reported = reported;
    this.#name = name;
  }

  onDue(): void {
    this.#reported.push(this.#name);
  }
}

test('members become due in order, each after its own delay, with one timer for all', async () => {
  const clock = new FakeClock();
  const queue = new DelayQueue(clock, 1_000);
  const reported: string[] = [];
  const [a, b, c] = ['a', 'b', 'c'].map((name) => new Member(reported, name)) as [Member, Member, Member];
  queue.join(a);
  await clock.advance(400);
  queue.join(b);
  await clock.advance(400);
  queue.join(c);
  assert.equal(clock.pending, 1);
  await clock.advance(200);
  assert.deepEqual(reported, ['a']);
  await clock.advance(400);
  assert.deepEqual(reported, ['a', 'b']);
  await clock.advance(400);
  assert.deepEqual(reported, ['a', 'b', 'c']);
  assert.equal(clock.pending, 0, 'no timer when no member waits');
});

test('a removed member is not notified, wherever it was, and can be added again', async () => {
  const clock = new FakeClock();
  const queue = new DelayQueue(clock, 1_000);
  const reported: string[] = [];
  const members = ['a', 'b', 'c', 'd'].map((name) => new Member(reported, name));
  for (const member of members) queue.join(member);
  for (const i of [1, 0, 3]) queue.leave(members[i]!);
  queue.leave(members[1]!);
  await clock.advance(500);
  queue.join(members[0]!);
  await clock.advance(500);
  assert.deepEqual(reported, ['c']);
  await clock.advance(500);
  assert.deepEqual(reported, ['c', 'a']);
});

test('a member that is added during the notification of another becomes due too', async () => {
  const clock = new FakeClock();
  const queue = new DelayQueue(clock, 1_000);
  const reported: string[] = [];
  const second = new Member(reported, 'second');
  const first = new (class extends Member {
    override onDue(): void {
      super.onDue();
      queue.join(second);
    }
  })(reported, 'first');
  queue.join(first);
  await clock.advance(1_000);
  await clock.advance(1_000);
  assert.deepEqual(reported, ['first', 'second']);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { StartQueue } from './start-queue.ts';

function bench(): {
  readonly begun: string[];
  readonly clock: FakeClock;
  readonly queue: StartQueue;
  end(name: string): void;
  add(...names: string[]): void;
} {
  const clock = new FakeClock();
  const queue = new StartQueue({ width: 2, patienceMs: 1_000 }, clock);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    begun,
    clock,
    queue,
    end: (name) => ends.get(name)?.(),
    add: (...names) => {
      for (const name of names) {
        queue.add(() => {
          begun.push(name);
          return new Promise((resolve) => ends.set(name, resolve));
        });
      }
    },
  };
}

test('check:A11 starts begin in order, so many at once', async () => {
  const { begun, clock, add, end } = bench();
  add('a', 'b', 'c', 'd');
  assert.deepEqual(begun, ['a', 'b']);
  end('b');
  await clock.advance(0);
  assert.deepEqual(begun, ['a', 'b', 'c']);
});

test('fault:F01 goal:G13 those that hang keep no others from starting, and are counted no twice', async () => {
  const { begun, clock, add, end } = bench();
  add('hangs-1', 'hangs-2', 'c', 'd', 'e', 'f');
  await clock.advance(999);
  assert.equal(begun.length, 2);
  await clock.advance(1);
  assert.deepEqual(begun, ['hangs-1', 'hangs-2', 'c', 'd']);
  end('hangs-1');
  await clock.advance(0);
  assert.equal(begun.length, 4);
  end('c');
  await clock.advance(0);
  assert.deepEqual(begun.slice(4), ['e']);
  assert.equal(clock.pending, 2);
});

test('what has not begun when it is closed never does', async () => {
  const { begun, clock, queue, add } = bench();
  add('a', 'b', 'c');
  queue.close();
  await clock.advance(5_000);
  assert.deepEqual(begun, ['a', 'b']);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type QueueLimits, type QueueOutput, WriteQueue } from './write-queue.ts';

const turn = (): Promise<void> => new Promise((done) => setImmediate(done));

/** A pipe that takes every write at once, unless it is full; a broken one takes nothing. */
class Pipe implements QueueOutput {
  readonly writes: string[] = [];
  errored: Error | null = null;
  full = false;
  breaks = false;
  #held: { readonly bytes: number; readonly done: () => void } | null = null;
  #corked: string | null = null;

  get writableLength(): number {
    return this.#held?.bytes ?? 0;
  }

  write(chunk: Buffer, done: () => void): void {
    if (this.breaks) this.errored = new Error('EPIPE');
    if (this.#corked === null) this.writes.push(chunk.toString());
    else this.#corked += chunk.toString();
    if (this.full) this.#held = { bytes: chunk.length, done };
    else setImmediate(done);
  }

  cork(): void {
    this.#corked = '';
  }

  uncork(): void {
    this.writes.push(this.#corked ?? '');
    this.#corked = null;
  }

  empty(): void {
    const held = this.#held;
    this.full = false;
    this.#held = null;
    held?.done();
  }
}

interface Bench {
  readonly queue: WriteQueue;
  readonly unsent: number[];
  /** The reader of the pipe; this node owns it at first. */
  readonly owned: { isHeld: boolean };
}

function queueTo(pipe: Pipe, limits?: QueueLimits): Bench {
  const unsent: number[] = [];
  const owned = { isHeld: true };
  return { queue: new WriteQueue(pipe, owned, (request) => unsent.push(request), limits), unsent, owned };
}

const message = (text: string): Buffer[] => [Buffer.from(text.slice(0, 1)), Buffer.from(text.slice(1))];

test('messages sent in one turn are written at once, in order; later ones are written alone', async () => {
  const pipe = new Pipe();
  const { queue } = queueTo(pipe);
  for (const [index, text] of ['one', 'two', 'three'].entries()) assert.ok(queue.push(message(text), index + 1));
  assert.deepEqual(pipe.writes, []);
  await Promise.resolve();
  assert.deepEqual(pipe.writes, ['one\ntwo\nthree\n']);
  queue.push(message('four'), 4);
  await turn();
  assert.deepEqual(pipe.writes.slice(1), ['four\n']);
});

test('several messages share a write up to 16 KiB, and a long one has its own', async () => {
  const pipe = new Pipe();
  const { queue } = queueTo(pipe);
  const lengths = [9_000, 7_000, 500, 20_000, 40_000, 10];
  for (const [index, length] of lengths.entries()) queue.push(message('x'.repeat(length)), index + 1);
  await turn();
  const written = pipe.writes.map((write) =>
    write
      .split('\n')
      .slice(0, -1)
      .map((line) => line.length),
  );
  assert.deepEqual(written, [[9_000, 7_000], [500], [20_000], [40_000], [10]]);
});

test('a message whose write has not begun can be withdrawn, is known to be unsent, and is not written', async () => {
  const pipe = new Pipe();
  const { queue } = queueTo(pipe);
  queue.push(message('one'), 1);
  queue.push(message('two'), 2);
  queue.withdraw(1);
  pipe.full = true;
  await turn();
  assert.deepEqual(pipe.writes, ['two\n']);
  queue.push(message('three'), 3);
  queue.push(message('four'), 4);
  queue.withdraw(3);
  await turn();
  assert.deepEqual(queue.end(), [4]);
  pipe.empty();
  await turn();
  assert.deepEqual(pipe.writes, ['two\n']);
});

test('messages sent just before the end are written', () => {
  const pipe = new Pipe();
  const { queue } = queueTo(pipe);
  queue.push(message('the last word'), 0);
  assert.deepEqual(queue.end(), []);
  assert.deepEqual(pipe.writes, ['the last word\n']);
});

test('a broken pipe took nothing: all requests that shared the write are reported as unsent', async () => {
  const pipe = new Pipe();
  const { queue, unsent } = queueTo(pipe);
  pipe.breaks = true;
  for (const request of [7, 0, 8]) queue.push(message('anything'), request);
  await turn();
  assert.deepEqual(unsent, [7, 8]);
});

test('fault:F31 messages that wait when this node loses the reader are dropped, and the requests reported as unsent', async () => {
  const pipe = new Pipe();
  const { queue, unsent, owned } = queueTo(pipe);
  for (const request of [1, 0, 2]) queue.push(message('not taken'), request);
  owned.isHeld = false;
  await Promise.resolve();
  assert.deepEqual([pipe.writes, unsent], [[], [1, 2]]);

  owned.isHeld = true;
  pipe.full = true;
  queue.push(message('taken'), 3);
  await turn();
  queue.push(message('waits'), 4);
  owned.isHeld = false;
  pipe.empty();
  assert.deepEqual([pipe.writes, unsent], [['taken\n'], [1, 2, 4]]);

  queue.push(message('the last word'), 5);
  assert.deepEqual(queue.end(), []);
  assert.deepEqual([pipe.writes, unsent], [['taken\n'], [1, 2, 4, 5]]);
});

test('the line before all messages is written although this node lost the reader', async () => {
  const pipe = new Pipe();
  const { queue, owned } = queueTo(pipe);
  owned.isHeld = false;
  queue.begin(Buffer.from('environment'));
  owned.isHeld = true;
  queue.push(message('one'), 1);
  await turn();
  assert.deepEqual(pipe.writes, ['environment\n', 'one\n']);
});

test('a message above the limit is written at once if the pipe takes it, and refused otherwise', async () => {
  const pipe = new Pipe();
  const { queue } = queueTo(pipe, { maxBytes: 1_000, maxMessages: 3 });
  const taken = (): boolean[] => Array.from({ length: 8 }, (_, index) => queue.push(message('text'), index + 1));
  assert.deepEqual(taken(), Array(8).fill(true));
  await turn();
  assert.equal(pipe.writes.join(''), 'text\n'.repeat(8));
  pipe.full = true;
  queue.push(message('held'), 9);
  await turn();
  assert.deepEqual(taken(), [true, true, true, false, false, false, false, false]);
  assert.equal(queue.push(message('x'.repeat(2_000)), 10), false);
  pipe.empty();
  await turn();
  assert.ok(queue.push(message('x'.repeat(2_000)), 10), 'a message of any size is taken when no other waits');
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import type { Wire, WireChange } from '../../bus/wire.ts';
import { AnswerPublisher } from './answer-publisher.ts';

/** A connection whose NATS answers when the test says so. */
class SlowNats {
  readonly clock = new FakeClock();
  readonly published: { subject: string; reply: string | undefined }[] = [];
  readonly post: AnswerPublisher;
  confirm: () => void = () => {};
  taken = false;
  #changed: (change: WireChange) => void = () => {};
  #received: (message: { subject: string; noResponders: boolean }) => void = () => {};

  constructor() {
    const wire = {
      onChange: (listener: (change: WireChange) => void) => (this.#changed = listener),
      subscribe: (_subject: string, listener: (message: { subject: string; noResponders: boolean }) => void) =>
        (this.#received = listener),
      publish: (subject: string, _bytes: Buffer, reply?: string) => this.published.push({ subject, reply }),
      flush: () => new Promise<void>((done) => (this.confirm = done)),
    };
    this.post = new AnswerPublisher(wire as unknown as Wire, this.clock, 'peer', () => this.taken);
    this.#changed({ type: 'connected', resync: true });
  }

  unheard(): void {
    this.#received({ subject: this.published.at(-1)!.reply!, noResponders: true });
  }
}

test('S0.18 after an outage an answer without a receiver is published again, also where NATS reports that slowly', async () => {
  const nats = new SlowNats();
  nats.post.publish('inbox', Buffer.from('{}'));
  for (const slowMs of [10, 2_000, 6_000]) {
    const before = nats.published.length;
    const confirmed = nats.post.confirmed();
    await nats.clock.advance(slowMs);
    nats.unheard();
    nats.confirm();
    assert.deepEqual(await confirmed, [], 'an answer without a receiver was confirmed');
    await nats.clock.advance(250);
    assert.equal(nats.published.length, before + 1, `said after ${slowMs} ms`);
  }
  assert.deepEqual(new Set(nats.published.map(({ subject }) => subject)), new Set(['inbox']));
  const last = nats.post.confirmed();
  await nats.clock.advance(2_000);
  nats.unheard();
  nats.confirm();
  assert.equal((await last).length, 1, 'the program does not come back, and the answer is kept');
  assert.equal(nats.clock.pending, 0);
});

test('S0.18 an answer is kept until NATS has confirmed it, also while it waits for its receiver', async () => {
  const nats = new SlowNats();
  nats.post.publish('a', Buffer.from('1'));
  const confirmed = nats.post.confirmed();
  nats.post.publish('b', Buffer.from('2'));
  nats.confirm();
  assert.deepEqual(
    (await confirmed).map(({ reply }) => reply),
    ['a'],
  );
  nats.unheard();
  const late = nats.post.confirmed();
  assert.deepEqual(
    nats.post.takeBack().map(({ reply }) => reply),
    ['b'],
  );
  nats.confirm();
  assert.deepEqual(await late, [], 'an answer that was taken back was confirmed');
  const before = nats.published.length;
  await nats.clock.advance(1_000);
  await settled();
  assert.equal(nats.published.length, before, 'an answer that was taken back was published again');
});

test('S0.18 an answer that waits for its receiver is not published again where another node answers', async () => {
  const nats = new SlowNats();
  nats.post.publish('a', Buffer.from('1'));
  nats.unheard();
  nats.taken = true;
  await nats.clock.advance(1_000);
  assert.equal(nats.published.length, 1);
  assert.deepEqual(nats.post.takeBack(), []);
});

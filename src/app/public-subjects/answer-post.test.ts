import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { Wire, WireChange } from '../../bus/wire.ts';
import { AnswerPost } from './answer-post.ts';

test('S0.18 after an outage an answer without a receiver is published again, also where NATS is slow to say so', async () => {
  const clock = new FakeClock();
  const published: { subject: string; reply: string | undefined }[] = [];
  let changed: (change: WireChange) => void = () => {};
  let received: (message: { subject: string; noResponders: boolean }) => void = () => {};
  const wire = {
    onChange: (listener: typeof changed) => (changed = listener),
    subscribe: (_subject: string, listener: typeof received) => (received = listener),
    publish: (subject: string, _bytes: Buffer, options?: { reply: string }) =>
      published.push({ subject, reply: options?.reply }),
  };
  const post = new AnswerPost(wire as unknown as Wire, clock, 'peer');
  changed({ type: 'connected', resync: true } as WireChange);
  post.publish('inbox', Buffer.from('{}'));
  for (const slowMs of [10, 2_000]) {
    const before = published.length;
    await clock.advance(slowMs);
    received({ subject: published.at(-1)!.reply!, noResponders: true });
    await clock.advance(250);
    assert.equal(published.length, before + 1, `said after ${slowMs} ms`);
  }
  assert.deepEqual(new Set(published.map(({ subject }) => subject)), new Set(['inbox']));
  await clock.advance(10_000);
  assert.equal(clock.pending, 0);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { JetStreamContext } from './jetstream.ts';
import { readStream } from './pending-records.ts';

for (const lost of ['info', 'consume']) {
  test(`a reading whose ${lost} fails leaves neither a timer nor a consumer`, async () => {
    const clock = new FakeClock();
    let consumers = 0;
    const answer = async (asked: string): Promise<{ num_pending: number }> => {
      if (asked === lost) throw new Error('no answer');
      return { num_pending: 1 };
    };
    const getPushConsumer = async (): Promise<object> => {
      consumers++;
      return { info: () => answer('info'), consume: () => answer('consume'), delete: async () => consumers-- };
    };
    const reach = { clock, client: { consumers: { getPushConsumer } } } as unknown as JetStreamContext;
    await assert.rejects(
      readStream(reach, 'logs', {}, () => true),
      /no answer/,
    );
    assert.deepEqual([clock.pending, consumers], [0, 0]);
  });
}

test('a reading that gets no record for 5 s after the last one fails with NOT_SENT', async () => {
  const clock = new FakeClock();
  let deliver = (_message: object): void => {};
  let open = 0;
  const getPushConsumer = async (): Promise<object> => {
    open++;
    return {
      info: async () => ({ name: 'c', num_pending: 2, delivered: { consumer_seq: 2 } }),
      consume: async ({ callback }: { callback: typeof deliver }) => {
        deliver = callback;
        return { stop: () => {} };
      },
      delete: async () => open--,
    };
  };
  const reach = { clock, client: { consumers: { getPushConsumer } } } as unknown as JetStreamContext;
  let ended = '';
  const reading = readStream(reach, 'logs', {}, () => true).catch(({ outcome, message }) => {
    ended = `${outcome}: ${message}`;
  });
  await clock.advance(4_000);
  deliver({ info: { consumer: 'c', deliverySequence: 1, pending: 1 } });
  await clock.advance(4_900);
  assert.equal(ended, '');
  await clock.advance(200);
  await reading;
  assert.equal(ended, 'NOT_SENT: logs is not read in time');
  assert.deepEqual([clock.pending, open], [0, 0]);
});

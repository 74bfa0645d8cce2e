import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { Reach } from './jetstream.ts';
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
    const reach = { clock, client: { consumers: { getPushConsumer } } } as unknown as Reach;
    await assert.rejects(
      readStream(reach, 'logs', {}, () => true),
      /no answer/,
    );
    assert.deepEqual([clock.pending, consumers], [0, 0]);
  });
}

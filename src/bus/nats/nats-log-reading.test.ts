import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { NatsSharedLogDeps } from './nats-shared-log.ts';
import { NatsSharedLog } from './nats-shared-log.ts';

interface Reported {
  readonly data: Buffer;
  readonly seq: number;
  readonly info: { readonly pending: number };
}

test('entries that fall out of a log while it is read are not waited for', async () => {
  const reported = (seq: number, pending: number): Reported => ({
    data: Buffer.from(`${seq}`),
    seq,
    info: { pending },
  });
  const consumer = {
    // As it was when the reading began; the first two are gone by the time they would come.
    info: async () => ({ num_pending: 4 }),
    consume: async ({ callback }: { callback: (message: Reported) => void }) => {
      callback(reported(3, 1));
      callback(reported(4, 0));
      // What was appended meanwhile is no part of it.
      callback(reported(5, 0));
      return { stop: () => {} };
    },
    delete: async () => true,
  };
  const reach = async () => ({ client: { consumers: { getPushConsumer: async () => consumer } } });
  const wire = { onChange: () => () => {}, status: { state: 'connected' }, maxPayload: 1_000_000 };
  const log = new NatsSharedLog({ wire, clock: new FakeClock(), reach } as unknown as NatsSharedLogDeps);
  const { entries, position } = await log.read('a');
  assert.deepEqual(entries.map(String), ['3', '4']);
  assert.equal(position, 4);
  log.close();
});

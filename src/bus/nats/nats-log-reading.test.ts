import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NatsServer } from '../../../test/support/nats-server.ts';
import { systemClock } from '../../model/clock.ts';
import type { JetStreamContext } from './jetstream.ts';
import { NatsSharedLog } from './nats-shared-log.ts';
import { NatsSharedState } from './nats-shared-state.ts';
import { loadNats, NatsWire } from './nats-wire.ts';

test('a read returns the entries that the log had at its beginning, except those deleted meanwhile', {
  timeout: 60_000,
}, async () => {
  await using server = await NatsServer.start();
  const { core, jetStream } = await loadNats();
  const options = { servers: [server.url], name: 'test', credentials: null, tls: null };
  const wire = new NatsWire(core, options, systemClock);
  await wire.firstAttempt;
  const state = new NatsSharedState({ wire, core, jetStream, clock: systemClock });
  /** Runs after JetStream has sent the number of entries and before it sends the first entry. */
  let meanwhile = async (_reach: JetStreamContext): Promise<void> => {};
  const context = async (): Promise<JetStreamContext> => {
    const real = await state.context();
    const getPushConsumer = async (stream: string, wanted: object) => {
      const consumer = await real.client.consumers.getPushConsumer(stream, wanted);
      await meanwhile(real);
      return consumer;
    };
    const publish = real.client.publish.bind(real.client);
    return { ...real, client: { consumers: { getPushConsumer }, publish } as unknown as JetStreamContext['client'] };
  };
  const log = new NatsSharedLog({ deps: state.deps, context });
  const append = async (position: number, ...entries: string[]): Promise<void> => {
    for (const entry of entries) assert.ok(await log.appendAfter('a', Buffer.from(entry), position++));
  };
  try {
    while (!(await log.appendAfter('a', Buffer.from('1'), 0).catch(() => false))) await wire.connection!.flush();
    await append(1, '2', '3', '4');
    meanwhile = async ({ manager }) => {
      for (const seq of [1, 2]) await manager.streams.deleteMessage('trunkline_logs', seq, false);
    };
    const fallen = await log.read('a');
    assert.deepEqual([fallen.entries.map(String), fallen.position], [['3', '4'], 4]);
    meanwhile = () => append(4, '5', '6');
    const grown = await log.read('a');
    assert.deepEqual([grown.entries.map(String), grown.position], [['3', '4'], 4]);
  } finally {
    log.close();
    await wire.close();
  }
});

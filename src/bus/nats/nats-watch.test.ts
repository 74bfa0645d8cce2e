import assert from 'node:assert/strict';
import { EventEmitter, on } from 'node:events';
import { test } from 'node:test';
import type { JsMsg } from '@nats-io/jetstream';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { NatsServer } from '../../../test/support/nats-server.ts';
import { systemClock } from '../../model/clock.ts';
import type { JetStreamContext } from './jetstream.ts';
import { type NatsBucket, NatsSharedState, NatsWatch } from './nats-shared-state.ts';
import { loadNats, NatsWire } from './nats-wire.ts';

/**
 * A simulated bucket, as JetStream shows it to a watch: `pending` records are still to be delivered, `reported` has the
 * delivered ones. The last test compares it with a server.
 */
class Played {
  readonly clock = new FakeClock();
  readonly reported: string[] = [];
  readonly state = { name: 'c_1', num_pending: 0, delivered: { consumer_seq: 0 } };
  readonly watch: NatsWatch;
  fails = false;
  /** The next consumers are created when these promises resolve. */
  readonly waits: Promise<void>[] = [];
  made = 0;
  deleted = 0;
  reconnect: () => void = () => {};
  /** When the stream was made. */
  created = '2026-11-23T13:54:52.011922064Z';
  /** `status` events are what the client reports of its consumers; with `end` it gives them up. */
  readonly client = new EventEmitter();
  #callback: (message: JsMsg) => void = () => {};

  constructor(pending: number) {
    this.state.num_pending = pending;
    const consumer = {
      info: async () => {
        if (this.fails) throw new Error('no answer');
        return structuredClone(this.state);
      },
      consume: async ({ callback }: { callback: (message: JsMsg) => void }) => {
        this.#callback = callback;
        const { client } = this;
        const status = async function* () {
          for await (const [type] of on(client, 'status', { close: ['end'] })) yield { type };
        };
        return { stop() {}, status };
      },
      delete: async () => this.deleted++,
    };
    const getPushConsumer = async () => {
      await this.waits.shift();
      this.made++;
      return { ...consumer };
    };
    const reach = {
      client: { consumers: { getPushConsumer } },
      manager: {
        streams: { info: async () => ({ created: this.created, state: { messages: 2 } }) },
      },
    };
    const onChange = (changed: (change: { readonly type: string }) => void) => {
      this.reconnect = () => changed({ type: 'connected' });
      return () => {};
    };
    const bucket = {
      state: { deps: { clock: this.clock, wire: { onChange } } },
      stream: 'KV_played',
      subject: (key: string) => `$KV.played.${key}`,
      withStream: (_doing: string, run: (there: unknown) => Promise<unknown>) => run(reach),
      readIncarnation: async () => String(Date.parse(this.created)),
    };
    this.watch = new NatsWatch(bucket as unknown as NatsBucket, '>', {
      put: ({ key }) => this.reported.push(key),
      gone: () => {},
      onReady: (incarnation) => this.reported.push(`ready ${incarnation}`),
    });
  }

  /** The server sends a record and has `pending` more at that moment; `arrives` delivers the record. */
  send(key: string, pending: number): { readonly info: object; arrives: () => void } {
    const { delivered, name } = this.state;
    delivered.consumer_seq++;
    this.state.num_pending = pending;
    const info = { pending, consumer: name, deliverySequence: delivered.consumer_seq };
    const message = { subject: `$KV.played.${key}`, data: Buffer.from('x'), seq: delivered.consumer_seq, info };
    return { info, arrives: () => this.#callback(message as unknown as JsMsg) };
  }
}

test('a watch is ready if the last records expired after the others were listed', async () => {
  const played = new Played(3);
  await played.watch.start();
  played.send('a', 2).arrives();
  const late = played.send('b', 1);
  await played.clock.advance(2_000);
  assert.deepEqual(played.reported, ['a'], 'two records are still to come');
  // The third record expired; the second is on its way.
  played.state.num_pending = 0;
  await played.clock.advance(2_000);
  assert.deepEqual(played.reported, ['a']);
  late.arrives();
  played.fails = true;
  await played.clock.advance(2_000);
  assert.deepEqual(played.reported, ['a', 'b']);
  played.fails = false;
  await played.clock.advance(2_000);
  assert.deepEqual(played.reported, ['a', 'b', 'ready 1795442092011']);
  played.send('c', 0).arrives();
  assert.deepEqual(played.reported.at(-1), 'c', 'it is ready once');
  assert.equal(played.clock.pending, 0);
  played.watch.close();
});

test('a watch that is closed while records arrive reads no more', async () => {
  const played = new Played(1);
  await played.watch.start();
  assert.equal(played.clock.pending, 1);
  played.watch.close();
  assert.equal(played.clock.pending, 0);
  const asked = new Played(1);
  await asked.watch.start();
  const passed = asked.clock.advance(1_000);
  asked.state.num_pending = 0;
  asked.watch.close();
  await passed;
  await settled();
  assert.deepEqual([asked.reported, asked.clock.pending], [[], 0]);
});

test('a watch that begins again before it has begun leaves no consumer behind', async () => {
  const played = new Played(0);
  await played.watch.start();
  const first = Promise.withResolvers<void>();
  played.waits.push(first.promise);
  played.reconnect();
  played.reconnect();
  await settled();
  first.resolve();
  await settled();
  assert.deepEqual([played.made, played.deleted], [3, 2]);
  played.watch.close();
  assert.equal(played.deleted, 3);
});

test('a start that fails after a later start succeeded does not end the watch that works', async () => {
  const played = new Played(0);
  await played.watch.start();
  const first = Promise.withResolvers<void>();
  played.waits.push(first.promise);
  played.reconnect();
  played.reconnect();
  await settled();
  first.reject(new Error('no answer'));
  await settled();
  await played.clock.advance(5_000);
  assert.deepEqual([played.made, played.deleted], [2, 1]);
  played.waits.push(Promise.reject(new Error('no answer')));
  played.reconnect();
  await settled();
  await played.clock.advance(5_000);
  assert.equal(played.made, 3, 'the last one is repeated');
  played.watch.close();
});

test('fault:F28 a watch begins its listing anew when its stream was made anew while the connection stayed', async () => {
  const played = new Played(0);
  await played.watch.start();
  const reports = async (status: string): Promise<void> => {
    played.client.emit('status', status);
    await settled();
  };
  await reports('ordered_consumer_recreated');
  assert.deepEqual([played.reported, played.made], [['ready 1795442092011'], 1], 'only the consumer was made anew');
  played.created = '2026-11-23T13:54:53.011922064Z';
  await reports('heartbeat');
  assert.equal(played.made, 1);
  await reports('ordered_consumer_recreated');
  assert.deepEqual(played.reported, ['ready 1795442092011', 'ready 1795442093011']);
  assert.deepEqual([played.made, played.deleted], [2, 1]);
  played.watch.close();
  played.created = '2026-11-23T13:54:54.011922064Z';
  await reports('ordered_consumer_recreated');
  assert.equal(played.made, 2, 'it is closed');
});

test('fault:F28 a watch begins again after the client gave its consumer up while the connection stayed', async () => {
  const played = new Played(0);
  await played.watch.start();
  const first = Promise.withResolvers<void>();
  played.waits.push(first.promise);
  played.client.emit('end');
  await settled();
  await played.clock.advance(500);
  first.reject(new Error('no answer'));
  await settled();
  await played.clock.advance(500);
  assert.deepEqual(played.reported, ['ready 1795442092011', 'ready 1795442092011']);
  assert.deepEqual([played.made, played.deleted, played.clock.pending], [2, 1, 0]);
  played.watch.close();
  played.client.emit('end');
  await settled();
  assert.equal(played.clock.pending, 0, 'it is closed');
});

test('a watch of a store is ready when all records from before its beginning have arrived', {
  timeout: 60_000,
}, async () => {
  const server = await NatsServer.start();
  const { core, jetStream } = await loadNats();
  const options = { servers: [server.url], name: 'test', credentials: null, tls: null };
  const wire = new NatsWire(core, options, systemClock);
  await wire.firstAttempt;
  const state = new NatsSharedState({ wire, core, jetStream, clock: systemClock });
  try {
    const bucket = state.bucket('leases', { ttlMs: 60_000 });
    await bucket.create('a', Buffer.from('1'));
    await bucket.create('b', Buffer.from('1'));
    const { manager, client, connection } = await state.context();
    // Both expire after the watch knows that there are two, and before either is delivered.
    const getPushConsumer = async (stream: string, wanted: object) => {
      const consumer = await client.consumers.getPushConsumer(stream, wanted);
      await manager.streams.purge(stream);
      return consumer;
    };
    const expiring = { consumers: { getPushConsumer } } as unknown as JetStreamContext['client'];
    const reported: string[] = [];
    const replicas = { look() {} } as unknown as JetStreamContext['replicas'];
    const reach: JetStreamContext = { manager, client: expiring, connection, replicas, clock: systemClock };
    const watched = {
      state: bucket.state,
      stream: bucket.stream,
      subject: (key: string) => bucket.subject(key),
      withStream: (_doing: string, run: (reach: JetStreamContext) => Promise<unknown>) => run(reach),
    } as unknown as NatsBucket;
    await new Promise<void>((resolve, reject) => {
      const watch = new NatsWatch(watched, '>', {
        put: ({ key }) => reported.push(key),
        gone: () => {},
        onReady: () => {
          watch.close();
          resolve();
        },
      });
      watch.start().catch(reject);
    });
    assert.deepEqual(reported, []);
  } finally {
    await wire.close();
    await server[Symbol.asyncDispose]();
  }
});

test('the simulated bucket behaves like one of a server', { timeout: 60_000 }, async () => {
  await using server = await NatsServer.start();
  const { core, jetStream } = await loadNats();
  const options = { servers: [server.url], name: 'test', credentials: null, tls: null };
  const wire = new NatsWire(core, options, systemClock);
  await wire.firstAttempt;
  const state = new NatsSharedState({ wire, core, jetStream, clock: systemClock });
  try {
    const bucket = state.bucket('leases', { ttlMs: 60_000 });
    for (const key of ['a', 'b', 'c', 'd']) await bucket.create(key, Buffer.from('x'));
    const { manager, client } = await state.context();
    const consumer = await client.consumers.getPushConsumer(bucket.stream, {
      deliver_policy: 'last_per_subject',
      filter_subjects: bucket.subject('>'),
    });
    const { name } = await consumer.info(true);
    const seen = async () => {
      const { num_pending, delivered } = await consumer.info();
      return { name, num_pending, delivered: { consumer_seq: delivered.consumer_seq } };
    };
    const real: unknown[] = [await seen()];
    // One record expires before any is sent.
    await manager.streams.deleteMessage(bucket.stream, 4, false);
    real.push(await seen());
    const messages = await consumer.consume({
      callback: ({ subject, info: { pending, consumer, deliverySequence } }) => {
        real.push({ subject, info: { pending, consumer, deliverySequence } });
      },
    });
    while (real.length < 5) await wire.connection!.flush();
    real.push(await seen());
    messages.stop();

    const played = new Played(4);
    const as = () => ({ ...structuredClone(played.state), name });
    const expected: unknown[] = [as()];
    played.state.num_pending = 3;
    expected.push(as());
    for (const [key, left] of [
      ['a', 2],
      ['b', 1],
      ['c', 0],
    ] as const) {
      const { info } = played.send(key, left);
      expected.push({ subject: bucket.subject(key), info: { ...info, consumer: name } });
    }
    expected.push(as());
    assert.deepEqual(real, expected);
    assert.match((await manager.streams.info(bucket.stream)).created, /^20/);
  } finally {
    await wire.close();
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { NatsServer } from '../../../test/support/nats-server.ts';
import { TcpGate } from '../../../test/support/tcp-gate.ts';
import { systemClock } from '../../model/clock.ts';
import type { WireChange } from '../wire.ts';
import { loadNats, type NatsCore, NatsWire } from './nats-wire.ts';

test('a connection lost before NATS has the subscriptions counts only after the reconnect, which is reported', {
  timeout: 30_000,
}, async () => {
  const server = await NatsServer.start({ jetStream: false });
  const gate = await TcpGate.start(server.port);
  const { core } = await loadNats();
  const connect: NatsCore['connect'] = async (options) => {
    const connection = await core.connect(options);
    gate.shut();
    return connection;
  };
  const servers = [`nats://127.0.0.1:${gate.port}`];
  const wire = new NatsWire({ ...core, connect }, { servers, name: 'test', credentials: null, tls: null }, systemClock);
  const changes: WireChange[] = [];
  const up = new Promise<void>((resolve) => {
    wire.onChange((change) => {
      changes.push(change);
      resolve();
    });
  });
  try {
    await wire.firstAttempt;
    assert.equal(wire.connected, false);
    assert.notEqual(wire.status.lastError, '');
    gate.open();
    await up;
    assert.equal(wire.connected, true);
    assert.deepEqual(changes, [{ type: 'connected', resync: true }]);
  } finally {
    await wire.close();
    await gate[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  }
});

test('an exception of a receiver becomes an uncaught exception, and the receiver gets later messages', {
  timeout: 10_000,
}, async () => {
  const server = await NatsServer.start({ jetStream: false });
  const { core } = await loadNats();
  const options = { servers: [server.url], name: 'test', credentials: null, tls: null };
  const wire = new NatsWire(core, options, systemClock);
  const uncaught: string[] = [];
  process.setUncaughtExceptionCaptureCallback(({ message }) => uncaught.push(message));
  try {
    await wire.firstAttempt;
    const received: string[] = [];
    const both = Promise.withResolvers<void>();
    wire.subscribe('news', ({ payload }) => {
      received.push(payload.toString());
      if (received.length === 1) throw new Error('a defect of the receiver');
      both.resolve();
    });
    wire.publish('news', Buffer.from('first'));
    wire.publish('news', Buffer.from('second'));
    await both.promise;
    assert.deepEqual([received, uncaught], [['first', 'second'], ['a defect of the receiver']]);
  } finally {
    process.setUncaughtExceptionCaptureCallback(null);
    await wire.close();
    await server[Symbol.asyncDispose]();
  }
});

test('a node that was started during an outage connects as soon after it as the nodes that were connected before', {
  timeout: 30_000,
}, async () => {
  const { core } = await loadNats();
  const clock = new FakeClock();
  let server: NatsServer | null = null;
  let attempts = 0;
  const refused = new Error('connection refused');
  const connect: NatsCore['connect'] = async (options) => {
    attempts++;
    if (server === null) throw refused;
    return core.connect({ ...options, servers: [`nats://127.0.0.1:${server.port}`] });
  };
  const options = { servers: ['nats://127.0.0.1:1'], name: 'test', credentials: null, tls: null };
  const wire = new NatsWire({ ...core, connect }, options, clock);
  try {
    await wire.firstAttempt;
    for (let ms = 0; ms < 20_000; ms += 375) await clock.advance(375);
    assert.ok(attempts > 40, `${attempts} attempts in an outage of 20 s`);
    server = await NatsServer.start({ jetStream: false });
    const up = new Promise<void>((resolve) => wire.onChange(() => resolve()));
    await clock.advance(500);
    await up;
    assert.equal(wire.connected, true);
  } finally {
    await wire.close();
    await server?.[Symbol.asyncDispose]();
  }
});

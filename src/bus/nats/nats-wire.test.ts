import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NatsServer } from '../../../test/support/nats-server.ts';
import { TcpGate } from '../../../test/support/tcp-gate.ts';
import { systemClock } from '../../model/clock.ts';
import type { WireChange } from '../wire.ts';
import { loadNats, type NatsCore, NatsWire } from './nats-wire.ts';

test('a connection that is lost before NATS has the subscriptions counts from the reconnect on, which is reported', {
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

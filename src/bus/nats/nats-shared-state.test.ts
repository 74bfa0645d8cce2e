import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { currentNatsServer, NatsServer } from '../../../test/support/nats-server.ts';
import { systemClock } from '../../model/clock.ts';
import { sharedStateContract } from '../shared-state.contract.ts';
import { loadNats } from './load-nats.ts';
import { NatsSharedState } from './nats-shared-state.ts';
import { NatsWire } from './nats-wire.ts';

const current = currentNatsServer();
contractOn('nats-server of the system', 'nats-server');
if ('program' in current) contractOn('nats-server, current release', current.program);
else console.warn(`SKIPPED: shared state on the current nats-server: ${current.missing}`);

function contractOn(name: string, program: string): void {
  describe(name, () => {
    let server: NatsServer;
    before(async () => {
      server = await NatsServer.start({ program });
    });
    after(() => server[Symbol.asyncDispose]());
    sharedStateContract({
      name,
      async start() {
        const one = await node(server);
        const two = await node(server);
        return {
          nodes: [one.state, two.state],
          pass: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
          async dispose() {
            await one.wire.close();
            await two.wire.close();
          },
        };
      },
    });

    test(`[${name}] forgotten deletions take no room, and the revisions go on after a crash`, {
      timeout: 60_000,
    }, async () => {
      const own = await NatsServer.start({ program });
      const { wire, state } = await node(own);
      try {
        const bucket = await state.bucket('claims', { ttlMs: 0 });
        const kept = await bucket.create('kept', Buffer.from('1'));
        let last = 0;
        for (let at = 0; at < 20; at++) {
          const revision = await bucket.create(`k${at}`, Buffer.from('1'));
          await bucket.delete(`k${at}`, revision!);
          last = revision! + 1;
          assert.equal(await bucket.delete(`k${at}`, last), true);
        }
        const { manager } = await state.reach();
        assert.equal((await manager.streams.info('KV_claims')).state.messages, 1);
        await bucket.delete('kept', kept!);
        assert.equal(await bucket.delete('kept', ++last), true);
        assert.equal((await manager.streams.info('KV_claims')).state.messages, 0);
        await own.kill();
        await until(() => wire.status.state === 'disconnected');
        await own.run();
        await until(() => wire.status.state === 'connected');
        assert.ok((await bucket.create('next', Buffer.from('1')))! > last);
      } finally {
        await wire.close();
        await own[Symbol.asyncDispose]();
      }
    });

    test(`fault:F28 [${name}] after a restart watches begin anew, and a bucket that was lost is made again`, {
      timeout: 60_000,
    }, async () => {
      const own = await NatsServer.start({ program });
      const { wire, state } = await node(own);
      try {
        const bucket = await state.bucket('leases', { ttlMs: 60_000 });
        await bucket.create('kept', Buffer.from('1'));
        const told: string[] = [];
        await bucket.watch('>', {
          put: ({ key }) => void told.push(key),
          gone: () => {},
          onReady: () => void told.push('ready'),
        });
        const before = bucket.incarnation;
        await until(() => told.includes('ready'));
        await own.stop();
        await until(() => wire.status.state === 'disconnected');
        await assert.rejects(bucket.get('kept'), (error: { outcome?: string }) => error.outcome === 'NOT_SENT');
        await own.run();
        await until(() => told.filter((word) => word === 'ready').length >= 2);
        assert.deepEqual(told.slice(-2), ['kept', 'ready']);
        assert.equal(bucket.incarnation, before);
        const { manager } = await state.reach();
        await manager.streams.delete('KV_leases');
        const revision = await bucket.create('new', Buffer.from('1'));
        assert.ok(revision !== null);
        assert.notEqual(bucket.incarnation, before);
        assert.equal(await bucket.get('kept'), null);
        // Whoever had it open and did not notice finds out by opening it again.
        const other = await node(own);
        try {
          const opened = await other.state.bucket('leases', { ttlMs: 60_000 });
          await manager.streams.delete('KV_leases');
          await bucket.create('newer', Buffer.from('1'));
          assert.equal(await opened.get('kept'), null);
          const again = await other.state.bucket('leases', { ttlMs: 60_000 });
          assert.equal(again.incarnation, bucket.incarnation);
        } finally {
          await other.wire.close();
        }
      } finally {
        await wire.close();
        await own[Symbol.asyncDispose]();
      }
    });
  });
}

test('what is asked of a server without JetStream fails with what it lacks', async () => {
  const server = await NatsServer.start({ jetStream: false });
  const { wire, state } = await node(server);
  try {
    assert.match(wire.status.lacks.join(), /JetStream is off/);
    await assert.rejects(state.bucket('leases', { ttlMs: 0 }), /JetStream is off/);
  } finally {
    await wire.close();
    await server[Symbol.asyncDispose]();
  }
});

async function node(server: NatsServer): Promise<{ wire: NatsWire; state: NatsSharedState }> {
  const { core, jetStream } = await loadNats();
  const options = { servers: [server.url], name: 'test', credentials: null, tls: null };
  const wire = new NatsWire(core, options, systemClock);
  await wire.firstAttempt;
  return { wire, state: new NatsSharedState({ wire, core, jetStream, clock: systemClock }) };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

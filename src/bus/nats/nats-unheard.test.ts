import assert from 'node:assert/strict';
import { createConnection } from 'node:net';
import { test } from 'node:test';
import { NatsServer } from '../../../test/support/nats-server.ts';
import { systemClock } from '../../model/clock.ts';
import { systemRandom } from '../../model/random.ts';
import { Secret } from '../../model/secret.ts';
import { Logger } from '../../telemetry/logger.ts';
import { SignedBus } from '../signed-bus.ts';
import { KeyRing } from '../trust/key-ring.ts';
import { loadNats, NatsWire } from './nats-wire.ts';

/** As in docs/cluster.md: no client may publish the status "no responders" in place of NATS. */
const CONFIG =
  'authorization { users: [{ user: node, password: secret, permissions: { publish: { deny: ["trunkline.unheard.>"] } } }] }';

test('check:H3 only NATS can report that a call has no receiver where no client may publish that', {
  timeout: 60_000,
}, async () => {
  await using server = await NatsServer.start({ config: CONFIG });
  const { core } = await loadNats();
  const credentials = { kind: 'user', user: 'node', password: new Secret('secret') } as const;
  const servers = [`nats://127.0.0.1:${server.port}`];
  const wire = new NatsWire(core, { servers, name: 'test', credentials, tls: null }, systemClock);
  await wire.firstAttempt;
  const keys = new KeyRing(['a secret of the cluster, thirty-two bytes at least']);
  const bus = new SignedBus({ wire, clock: systemClock, keys, random: systemRandom, logger: Logger.silent() });
  try {
    // NATS itself publishes the status.
    const to = '0123456789abcdef';
    const { outcome } = bus.call('trunkline.nobody', Buffer.from('x'), { to, deadlineMs: 10_000 });
    const nowhere = await outcome;
    assert.equal(nowhere.kind === 'failure' && nowhere.error.outcome, 'NOT_SENT');
    // A client with the node's credentials tries to publish it.
    const refusal = await said(server.port, `trunkline.unheard.${bus.peer}.b.1`);
    assert.match(refusal, /Permissions Violation for Publish/);
  } finally {
    await bus.close();
  }
});

/** Publishes a status as NATS would; returns what the server answers. */
function said(port: number, subject: string): Promise<string> {
  const status = 'NATS/1.0 503\r\n\r\n';
  const connection = createConnection(port, '127.0.0.1');
  return new Promise((resolve, reject) => {
    let text = '';
    connection.on('error', reject);
    connection.on('data', (bytes) => {
      text += bytes.toString();
      if (!text.includes('PONG')) return;
      connection.destroy();
      resolve(text);
    });
    const login = '{"verbose":false,"headers":true,"user":"node","pass":"secret","lang":"test","version":"1"}';
    connection.write(`CONNECT ${login}\r\nHPUB ${subject} ${status.length} ${status.length}\r\n${status}\r\nPING\r\n`);
  });
}

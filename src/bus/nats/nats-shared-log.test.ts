import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sharedLogContract } from '../../../test/contracts/shared-log.contract.ts';
import { currentNatsServer, NatsServer } from '../../../test/support/nats-server.ts';
import { systemClock } from '../../model/clock.ts';
import { NatsSharedLog } from './nats-shared-log.ts';
import { NatsSharedState } from './nats-shared-state.ts';
import { loadNats, NatsWire } from './nats-wire.ts';

const current = await currentNatsServer();
contractOn('nats-server of the system', 'nats-server');
if ('program' in current) contractOn('nats-server, current release', current.program);
else console.warn(`SKIPPED: shared logs on the current nats-server: ${current.missing}`);

function contractOn(name: string, program: string): void {
  describe(name, () => {
    let server: NatsServer;
    before(async () => {
      server = await NatsServer.start({ program });
    });
    after(() => server[Symbol.asyncDispose]());
    sharedLogContract({
      name,
      async start() {
        const nodes = await Promise.all([node(server), node(server)]);
        return {
          nodes: [nodes[0].log, nodes[1].log],
          async dispose() {
            for (const { log, wire } of nodes) {
              log.close();
              await wire.close();
            }
          },
        };
      },
    });

    test(`fault:F28 [${name}] a restarted server keeps logs again without an operator`, {
      timeout: 60_000,
    }, async () => {
      const own = await NatsServer.start({ program });
      const { wire, log } = await node(own);
      try {
        await until(async () => log.append('a', Buffer.from('1')) && (await log.read('a')).position > 0);
        await own.stop();
        await until(async () => !log.append('a', Buffer.from('2')));
        await assert.rejects(log.read('a'), (error: { outcome?: string }) => error.outcome === 'NOT_SENT');
        await own.run();
        await until(async () => log.append('b', Buffer.from('3')) && (await log.read('b')).position > 0);
        assert.equal((await log.read('b')).entries.at(-1)!.toString(), '3');
      } finally {
        log.close();
        await wire.close();
        await own[Symbol.asyncDispose]();
      }
    });

    test(`fault:F28 [${name}] after a reading of the state finds the stream deleted, the log creates it again`, {
      timeout: 20_000,
    }, async () => {
      const own = await NatsServer.start({ program });
      const { wire, log, state } = await node(own);
      try {
        await until(async () => log.append('a', Buffer.from('1')) && (await log.read('a')).position > 0);
        await (await state.context()).manager.streams.delete('trunkline_logs');
        await assert.rejects(log.state(), /stream not found/);
        await until(async () => log.append('a', Buffer.from('2')) && (await log.read('a')).position > 0);
        assert.equal((await log.read('a')).entries[0]!.toString(), '2');
      } finally {
        log.close();
        await wire.close();
        await own[Symbol.asyncDispose]();
      }
    });
  });
}

async function node(server: NatsServer): Promise<{ wire: NatsWire; log: NatsSharedLog; state: NatsSharedState }> {
  const { core, jetStream } = await loadNats();
  const options = { servers: [server.url], name: 'test', credentials: null, tls: null };
  const wire = new NatsWire(core, options, systemClock);
  await wire.firstAttempt;
  const state = new NatsSharedState({ wire, core, jetStream, clock: systemClock });
  return { wire, log: new NatsSharedLog(state), state };
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition().catch(() => false))) await new Promise((resolve) => setTimeout(resolve, 10));
}

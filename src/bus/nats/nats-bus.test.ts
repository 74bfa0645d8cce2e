import { after, before, describe } from 'node:test';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { type BusBench, busContract, SECRET } from '../../../test/contracts/bus.contract.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { currentNatsServer, NatsServer } from '../../../test/support/nats-server.ts';
import { TcpGate } from '../../../test/support/tcp-gate.ts';
import { systemClock } from '../../model/clock.ts';
import { systemRandom } from '../../model/random.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { Bus } from '../bus.ts';
import { SignedBus } from '../signed-bus.ts';
import { KeyRing } from '../trust/key-ring.ts';
import { loadNats, NatsWire } from './nats-wire.ts';

const current = await currentNatsServer();
contractOn('nats-server of the system', 'nats-server');
if ('program' in current) contractOn('nats-server, current release', current.program);
else console.warn(`SKIPPED: the bus on the current nats-server: ${current.missing}`);

function contractOn(name: string, program: string): void {
  describe(name, () => {
    let server: NatsServer;
    before(async () => {
      server = await NatsServer.start({ program });
    });
    after(() => server[Symbol.asyncDispose]());
    busContract({ name, start: () => natsBench(server) });
  });
}

interface Joined {
  readonly wire: NatsWire;
  readonly gate: TcpGate;
}

async function natsBench(server: NatsServer): Promise<BusBench> {
  const { core } = await loadNats();
  const clock = new FakeClock();
  const outsider = await connect({ servers: server.url });
  const joined = new Map<Bus, Joined>();
  const connections = (): NatsConnection[] => [
    outsider,
    ...[...joined.values()]
      .filter(({ wire }) => wire.status.state === 'connected')
      .map(({ wire }) => wire.connection as NatsConnection),
  ];
  const settle = async (): Promise<void> => {
    // The first flush brings published messages to the server, the second one brings relayed messages here.
    for (let round = 0; round < 2; round++)
      await Promise.all(connections().map((connection) => connection.flush().catch(() => {})));
    await new Promise((resolve) => setImmediate(resolve));
  };
  const turned = (wire: NatsWire, state: string): Promise<void> =>
    new Promise((resolve) => {
      if (wire.status.state === state) resolve();
      else
        wire.onChange(() => {
          if (wire.status.state === state) resolve();
        });
    });
  return {
    clock,
    async join(secrets = [SECRET]) {
      const gate = await TcpGate.start(server.port);
      const servers = [`nats://127.0.0.1:${gate.port}`];
      const wire = new NatsWire(core, { servers, name: 'test', credentials: null, tls: null }, systemClock);
      await wire.firstAttempt;
      const bus = new SignedBus({
        wire,
        clock,
        keys: new KeyRing(secrets),
        random: systemRandom,
        logger: Logger.silent(),
      });
      joined.set(bus, { wire, gate });
      return bus;
    },
    async cut(bus) {
      const { wire, gate } = joined.get(bus)!;
      const down = turned(wire, 'disconnected');
      gate.shut();
      await down;
    },
    async restore(bus) {
      const { wire, gate } = joined.get(bus)!;
      const up = turned(wire, 'connected');
      gate.open();
      await up;
    },
    intrude: (subject, payload) => outsider.publish(subject, payload),
    async overhear(subject) {
      const heard: { subject: string; payload: Buffer }[] = [];
      outsider.subscribe(subject, {
        callback: (_error, message) => {
          heard.push({ subject: message.subject, payload: Buffer.from(message.data) });
        },
      });
      await outsider.flush();
      return heard;
    },
    settle,
    async dispose() {
      for (const [bus, { gate }] of joined) {
        await bus.close();
        await gate[Symbol.asyncDispose]();
      }
      await outsider.close();
    },
  };
}

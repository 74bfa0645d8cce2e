import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually, NatsCluster } from '../../../test/support/nats-cluster.ts';
import { currentNatsServer, NatsServer } from '../../../test/support/nats-server.ts';
import { type Clock, systemClock } from '../../model/clock.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { Bucket } from '../shared-state.ts';
import { NatsSharedLog } from './nats-shared-log.ts';
import { NatsSharedState } from './nats-shared-state.ts';
import { loadNats, NatsWire } from './nats-wire.ts';

/** The longest delay of a timer in these tests, instead of a minute. */
const SOON_MS = 300;
const LEASES = 'KV_trunkline_leases';

const current = await currentNatsServer();
replicasOn('nats-server of the system', 'nats-server');
if ('program' in current) replicasOn('nats-server, current release', current.program);
else console.warn(`SKIPPED: replicas on the current nats-server: ${current.missing}`);

function replicasOn(name: string, program: string): void {
  describe(name, () => {
    test(`fault:F28 [${name}] data of one NATS server gets three replicas once the cluster has three servers, in the same store`, {
      timeout: 120_000,
    }, async (t) => {
      const cluster = await NatsCluster.of(program, 2);
      t.after(() => cluster[Symbol.asyncDispose]());
      const { wire, state, said } = await node(cluster.servers[0]!);
      t.after(() => wire.close());
      const bucket = await opened(state);
      const revision = await eventually(() => bucket.create('lease', Buffer.from('1')));
      const { incarnation } = bucket;
      const { manager } = await state.context();
      const alone = (await manager.streams.info(LEASES)).cluster?.leader;
      // A server is missing: the log reports it once, however often the node tries.
      await eventually(async () => assert.equal(few(said).length, 1));
      await new Promise((resolve) => setTimeout(resolve, 4 * SOON_MS));
      assert.equal(few(said).length, 1, said.join(''));
      assert.match(few(said)[0]!, /"stream":"KV_trunkline_leases","replicas":1,"wanted":3,"reason":".+","advice":".+"/);
      await cluster.add();
      await eventually(async () => {
        const { config, cluster: its } = await manager.streams.info(LEASES);
        assert.equal(config.num_replicas, 3);
        assert.ok(its?.leader !== undefined);
        assert.deepEqual(
          its.replicas?.map((replica) => replica.current),
          [true, true],
        );
      });
      await eventually(async () => assert.match(said.join(''), /stream_replicas_raised/));
      // nats-server 2.9 may call replicas current up to 10 s before they store anything.
      await eventually(async () => assert.deepEqual(await cluster.stored(LEASES), [1, 1, 1]));
      assert.equal((await opened(state)).incarnation, incarnation, 'the store was not created again');
      // Kills the server that had the only copy. The client knows the other servers.
      await cluster.servers.find((_server, at) => alone === `n${at}`)!.kill();
      const record = await eventually(async () => (await opened(state)).get('lease'));
      assert.equal(record?.revision, revision);
      const later = await eventually(() => bucket.update('lease', Buffer.from('2'), revision!));
      assert.ok(later! > revision!);
    });

    test(`[${name}] a lone server has one replica of everything, without a warning`, {
      timeout: 60_000,
    }, async () => {
      const server = await NatsServer.start({ program });
      const { wire, state, said } = await node(server);
      try {
        await opened(state);
        await opened(state);
        const log = new NatsSharedLog(state);
        const { manager } = await state.context();
        await eventually(() => manager.streams.info('trunkline_logs'));
        await new Promise((resolve) => setTimeout(resolve, 2 * SOON_MS));
        assert.equal((await manager.streams.info(LEASES)).config.num_replicas, 1);
        assert.deepEqual(said, []);
        log.close();
      } finally {
        await wire.close();
        await server[Symbol.asyncDispose]();
      }
    });
  });
}

async function node(server: NatsServer) {
  const { core, jetStream } = await loadNats();
  const servers = [server.url];
  const wire = new NatsWire(core, { servers, name: 'test', credentials: null, tls: null }, systemClock);
  await wire.firstAttempt;
  const said: string[] = [];
  const logger = new Logger({ level: 'info', write: (line) => void said.push(line) });
  const clock: Clock = {
    now: () => systemClock.now(),
    turnNow: () => systemClock.turnNow(),
    wall: () => systemClock.wall(),
    after: (ms, task) => systemClock.after(Math.min(ms, SOON_MS), task),
  };
  return { wire, said, state: new NatsSharedState({ wire, core, jetStream, clock, logger }) };
}

async function opened(state: NatsSharedState): Promise<Bucket> {
  const bucket = state.bucket('trunkline_leases', { ttlMs: 0 });
  await eventually(() => bucket.readIncarnation());
  return bucket;
}

function few(said: readonly string[]): readonly string[] {
  return said.filter((line) => line.includes('stream_replicas_few'));
}

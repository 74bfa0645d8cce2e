import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sharedStateContract } from '../../../test/contracts/shared-state.contract.ts';
import { eventually, NatsCluster } from '../../../test/support/nats-cluster.ts';
import { currentNatsServer, NatsServer } from '../../../test/support/nats-server.ts';
import { systemClock } from '../../model/clock.ts';
import { Secret } from '../../model/secret.ts';
import type { Bucket } from '../shared-state.ts';
import { NatsSharedState } from './nats-shared-state.ts';
import { loadNats, type NatsOptions, NatsWire } from './nats-wire.ts';

const HOUR_MS = 3_600_000;
const current = await currentNatsServer();
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

    test(`[${name}] removed deletion marks take no room, and the revisions go on after a crash`, {
      timeout: 60_000,
    }, async () => {
      const own = await NatsServer.start({ program });
      const { wire, state } = await node(own);
      try {
        const bucket = state.bucket('claims', { ttlMs: 0 });
        const kept = await bucket.create('kept', Buffer.from('1'));
        for (let at = 0; at < 20; at++) {
          const revision = await bucket.create(`k${at}`, Buffer.from('1'));
          await bucket.delete(`k${at}`, revision!);
        }
        await bucket.delete('kept', kept!);
        assert.equal(await bucket.purgeTombstones(-HOUR_MS), 20);
        const { manager } = await state.context();
        const { messages, last_seq: last } = (await manager.streams.info('KV_claims')).state;
        assert.equal(messages, 1, 'the newest');
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

    test(`[${name}] many marks of deletions do not hide the few records that there are, and are removed after an hour`, {
      timeout: 120_000,
    }, async () => {
      const own = await NatsServer.start({ program });
      const [one, later, latest] = [await node(own), await node(own, null, HOUR_MS), await node(own, null, HOUR_MS)];
      try {
        const open = (of: typeof one) => of.state.bucket('sessions', { ttlMs: 8 * 24 * HOUR_MS });
        const bucket = await open(one);
        for (let at = 0; at < 5; at++) await bucket.create(`open${at}`, Buffer.from('1'));
        const ended = Array.from({ length: 33_000 }, (_, at) => `ended${at}`);
        for (let at = 0; at < ended.length; at += 500) {
          await Promise.all(ended.slice(at, at + 500).map((key) => bucket.delete(key)));
        }
        assert.deepEqual(await listed(bucket, 32_768), { puts: 5, marks: 33_000, whole: true });
        assert.deepEqual(await listed(bucket, 4), { puts: 0, marks: 4, whole: false });
        const { manager } = await one.state.context();
        const messages = async () => (await manager.streams.info('KV_sessions')).state.messages;
        assert.equal(await bucket.purgeTombstones(HOUR_MS), 0, 'they are not an hour old');
        assert.equal(await messages(), 33_005);
        const buckets = [await open(later), await open(latest)];
        const forgotten = await Promise.all(buckets.map((of) => of.purgeTombstones(HOUR_MS)));
        assert.equal(forgotten[0]! + forgotten[1]!, 32_999, 'two nodes do not hinder each other');
        assert.equal(await messages(), 6);
        assert.deepEqual(await listed(bucket, 32_768), { puts: 5, marks: 1, whole: true });
        assert.equal((await bucket.get('open3'))?.value.toString(), '1');
      } finally {
        for (const { wire } of [one, later, latest]) await wire.close();
        await own[Symbol.asyncDispose]();
      }
    });

    test(`fault:F28 [${name}] after a restart watches begin again, and a lost bucket is created again`, {
      timeout: 60_000,
    }, async () => {
      const own = await NatsServer.start({ program });
      const { wire, state } = await node(own);
      try {
        const bucket = state.bucket('leases', { ttlMs: 60_000 });
        await bucket.create('kept', Buffer.from('1'));
        const reported: string[] = [];
        await bucket.watch('>', {
          put: ({ key }) => void reported.push(key),
          gone: () => {},
          onReady: () => void reported.push('ready'),
        });
        const before = bucket.incarnation;
        await until(() => reported.includes('ready'));
        await own.stop();
        await until(() => wire.status.state === 'disconnected');
        await assert.rejects(bucket.get('kept'), (error: { outcome?: string }) => error.outcome === 'NOT_SENT');
        await own.run();
        await until(() => reported.filter((word) => word === 'ready').length >= 2);
        assert.deepEqual(reported.slice(-2), ['kept', 'ready']);
        assert.equal(bucket.incarnation, before);
        const { manager } = await state.context();
        await manager.streams.delete('KV_leases');
        const revision = await bucket.create('new', Buffer.from('1'));
        assert.ok(revision !== null);
        assert.notEqual(bucket.incarnation, before);
        assert.equal(await bucket.get('kept'), null);
        // A bucket object that was opened before the deletion detects it with its next request.
        const other = await node(own);
        try {
          const opened = other.state.bucket('leases', { ttlMs: 60_000 });
          assert.equal(await opened.readIncarnation(), bucket.incarnation);
          await manager.streams.delete('KV_leases');
          await bucket.create('newer', Buffer.from('1'));
          assert.equal(await opened.get('kept'), null);
          assert.equal(await opened.readIncarnation(), bucket.incarnation);
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

test('a record is created although other nodes replace the mark of its deletion meanwhile', async () => {
  const server = await NatsServer.start();
  const [one, other] = [await node(server), await node(server)];
  try {
    const [bucket, theirs] = [one, other].map(({ state }) => state.bucket('claims', { ttlMs: 0 }));
    await bucket!.delete('lease');
    const { client } = await one.state.context();
    const publish = client.publish.bind(client);
    let replaced = 0;
    let times = 2;
    client.publish = async (subject, payload, options) => {
      const replaces = replaced < times && (options?.expect?.lastSubjectSequence ?? 0) > 0;
      if (replaces) {
        replaced++;
        await theirs!.delete('lease');
      }
      return publish(subject, payload, options);
    };
    assert.notEqual(await bucket!.create('lease', Buffer.from('1')), null);
    assert.equal(replaced, 2);
    await theirs!.delete('lease');
    times = Number.POSITIVE_INFINITY;
    await assert.rejects(bucket!.create('lease', Buffer.from('2')), { outcome: 'NOT_SENT' });
  } finally {
    for (const { wire } of [one, other]) await wire.close();
    await server[Symbol.asyncDispose]();
  }
});

test('a record above the max_payload of NATS is refused as too large, and one just below it is stored', async () => {
  const server = await NatsServer.start({ config: 'max_payload: 32768' });
  const { wire, state } = await node(server);
  try {
    const bucket = state.bucket('tasks', { ttlMs: HOUR_MS, maxValueBytes: 640 * 1024 });
    const revision = await bucket.create('task', Buffer.alloc(32_768 - 512));
    assert.notEqual(await bucket.update('task', Buffer.alloc(32_768 - 512), revision!), null);
    await assert.rejects(bucket.create('long', Buffer.alloc(32_768)), { code: 'TOO_LARGE', outcome: 'NOT_SENT' });
  } finally {
    await wire.close();
    await server[Symbol.asyncDispose]();
  }
});

test('a request to a server without JetStream fails, and the error says so', async () => {
  const server = await NatsServer.start({ jetStream: false });
  const { wire, state } = await node(server);
  try {
    assert.deepEqual(wire.status.lacks, [], 'another server of its cluster may have it');
    assert.match((await state.jetStreamProblem())!, /JetStream is off.*nats-server with -js/);
    await assert.rejects(state.bucket('leases', { ttlMs: 0 }).get('a'), {
      outcome: 'NOT_SENT',
      message: /JetStream is off/,
    });
  } finally {
    await wire.close();
    await server[Symbol.asyncDispose]();
  }
});

/** Restrictions of `user`, with the error of each. */
const lacking: Record<string, { readonly config: string; readonly lack: RegExp }> = {
  'an account without JetStream': {
    config: `accounts {
      own { users: [{ user: user, password: word }] }
      other { jetstream: enabled, users: [{ user: other, password: word }] }
    }`,
    lack: /JetStream is off for the account of these credentials.*set jetstream: enabled/,
  },
  'a user who may not ask JetStream for streams': {
    config: 'authorization { users: [{ user: user, password: word, permissions: { publish: ["trunkline.>"] } }] }',
    lack: /may not publish to \$JS\.API\.STREAM\.INFO\.KV_leases: docs\/cluster\.md says/,
  },
  'a user who may not subscribe to its inbox': {
    config: 'authorization { users: [{ user: user, password: word, permissions: { subscribe: ["mcp.>"] } }] }',
    lack: /may not subscribe to trunkline\.inbox\./,
  },
};

for (const [name, { config, lack }] of Object.entries(lacking)) {
  test(`S0.21 ${name}: a request fails at once, and the error names the cause`, async () => {
    const server = await NatsServer.start({ config });
    const { wire, state } = await node(server, { kind: 'user', user: 'user', password: new Secret('word') });
    try {
      assert.equal(wire.status.state, 'connected');
      const asked = performance.now();
      await assert.rejects(state.bucket('leases', { ttlMs: 0 }).get('a'), { outcome: 'NOT_SENT', message: lack });
      assert.ok(performance.now() - asked < 1_500, 'the request does not wait for an answer');
      // For a user who may not query the account, a problem of JetStream is unknown: the result is null.
      const reported = await state.jetStreamProblem();
      if (name.includes('streams')) assert.equal(reported, null);
      else assert.match(reported!, lack);
    } finally {
      await wire.close();
      await server[Symbol.asyncDispose]();
    }
  });
}

test('S0.21 a server without JetStream whose cluster has it is enough for a node', {
  timeout: 120_000,
}, async () => {
  const cluster = await NatsCluster.of('nats-server', 3);
  try {
    const { wire, state } = await node(await cluster.add(false));
    assert.notEqual(wire.connection?.info?.jetstream, true);
    const bucket = state.bucket('leases', { ttlMs: 0 });
    const revision = await eventually(() => bucket.create('own', Buffer.from('1')));
    assert.equal((await bucket.get('own'))?.revision, revision);
    assert.deepEqual([wire.status.lacks, await state.jetStreamProblem()], [[], null]);
    await wire.close();
  } finally {
    await cluster[Symbol.asyncDispose]();
  }
});

/** Counts the records and marks that a watch of the `newest` entries lists. */
async function listed(bucket: Bucket, newest: number) {
  const counts = { puts: 0, marks: 0 };
  const ready = Promise.withResolvers<boolean>();
  const onReady = (_incarnation: string, whole: boolean): void => ready.resolve(whole);
  const watch = await bucket.watch('>', { put: () => counts.puts++, gone: () => counts.marks++, onReady }, newest);
  const whole = await ready.promise;
  watch.close();
  return { ...counts, whole };
}

/** `aheadMs` is the offset of its wall clock. */
async function node(
  server: NatsServer,
  credentials: NatsOptions['credentials'] = null,
  aheadMs = 0,
): Promise<{ wire: NatsWire; state: NatsSharedState }> {
  const { core, jetStream } = await loadNats();
  const options = { servers: [server.url], name: 'test', credentials, tls: null };
  const wire = new NatsWire(core, options, systemClock);
  await wire.firstAttempt;
  const clock = { ...systemClock, wall: () => systemClock.wall() + aheadMs };
  return { wire, state: new NatsSharedState({ wire, core, jetStream, clock }) };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

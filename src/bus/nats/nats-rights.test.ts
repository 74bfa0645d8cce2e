import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { NatsServer } from '../../../test/support/nats-server.ts';
import { systemClock } from '../../model/clock.ts';
import { systemRandom } from '../../model/random.ts';
import { Secret } from '../../model/secret.ts';
import { Logger } from '../../telemetry/logger.ts';
import { SignedBus } from '../signed-bus.ts';
import { KeyRing } from '../trust/key-ring.ts';
import { NatsSharedLog } from './nats-shared-log.ts';
import { NatsSharedState } from './nats-shared-state.ts';
import { loadNats, NatsWire } from './nats-wire.ts';

const REFERENCE = join(import.meta.dirname, '../../../docs/reference/cluster.md');
const SECRET = 'a secret of a cluster, 32 bytes and more';
const CLUSTER = 'staging';
const SOON_MS = 3_000;

interface Part {
  /** The comment of the right, which says what fails without it. */
  readonly without: string;
  readonly text: string;
}

/** The documented user, as it is written, and the parts of its rights. */
const { user, parts, streams } = documented();

describe('S0.21 the documented rights of a node at NATS are enough, and each is needed', () => {
  let nats: NatsServer;
  before(async () => {
    const users = [
      '{ user: admin, password: word }',
      userOf('whole', user),
      userOf('named', user.replaceAll('trunkline', `trunkline-${CLUSTER}`)),
      // An empty list would permit everything.
      ...parts.map(({ text }, at) => userOf(`lacking${at}`, user.replace(text, '"none"'))),
    ];
    nats = await NatsServer.start({ config: `authorization { users: [${users.join(', ')}] }` });
  });
  after(() => nats[Symbol.asyncDispose]());

  test('a node with exactly these rights does all that a node does', async () => {
    assert.equal(parts.length, 13);
    assert.equal(streams.length, 9);
    assert.deepEqual(await failures(nats, 'whole', null), []);
  });

  for (const [at, { without, text }] of parts.entries()) {
    // Only used when entries fall out of a log while it is read: nats-log-reading.test.ts.
    if (text.includes('CONSUMER.INFO')) continue;
    test(`without: ${without}`, async () => {
      await empty(nats);
      assert.notDeepEqual(await failures(nats, `lacking${at}`, null), []);
    });
  }

  test('a node of a named cluster works with its own rights; a node of the unnamed cluster reads no record with them', async () => {
    await empty(nats);
    assert.deepEqual(await failures(nats, 'named', CLUSTER), []);
    const own = await node(nats, 'named', CLUSTER);
    const other = await node(nats, 'named', null);
    await own.state.bucket('trunkline_sessions', { ttlMs: 0 }).create('last', Buffer.from('v'));
    await assert.rejects(
      other.state.bucket('trunkline_sessions', { ttlMs: 0 }).get('last'),
      /these credentials may not /,
    );
    await Promise.all([own.close(), other.close()]);
  });
});

/** Descriptions of the failures when a node with these rights does all that a node does. */
async function failures(nats: NatsServer, name: string, cluster: string | null): Promise<readonly string[]> {
  const [a, b] = [await node(nats, name, cluster), await node(nats, 'admin', cluster)];
  const wrong: string[] = [];
  const check = async (what: string, work: () => Promise<boolean>): Promise<void> => {
    const late = new Promise<boolean>((done) => setTimeout(() => done(false), SOON_MS).unref());
    const done = await Promise.race([work(), late]).catch((error: Error) => error.message);
    if (done !== true) wrong.push(`${what}: ${done}`);
  };
  const refused = (subject: string): boolean => a.denied.some((error) => error.includes(subject));
  for (const name of streams.filter((stream) => stream.startsWith('KV_')).map((stream) => stream.slice(3))) {
    await check(name, async () => {
      const bucket = a.state.bucket(name, { ttlMs: 0 });
      const revision = await bucket.create('k', Buffer.from('v'));
      const seen: string[] = [];
      const watch = await bucket.watch('>', { put: ({ key }) => seen.push(key), gone: () => {} });
      const deleted = (await bucket.update('k', Buffer.from('w'), revision!)) ?? 0;
      await bucket.delete('k', deleted);
      await bucket.create('next', Buffer.from('v'));
      const removed = (await bucket.look('k')) === 'deleted' && (await bucket.purgeTombstones(-3_600_000)) === 1;
      watch.close();
      // A bucket with the settings of an earlier version.
      await a.state.bucket(name, { ttlMs: 0, maxValueBytes: 1_000 }).readIncarnation();
      await a.state.bucket(name, { ttlMs: 0 }).readIncarnation();
      return removed;
    });
  }
  await check('log', async () => {
    await until(async () => (await a.log.appendAfter('s', Buffer.from('0'), 0).catch(() => false)) === true);
    a.log.append('s', Buffer.from('1'));
    await until(async () => (await a.log.read('s')).entries.length === 2);
    return true;
  });
  await check('shares of logs', async () => {
    const count = async (): Promise<number> => (await a.log.read('g.1')).entries.length;
    for (let at = 0; at < 40; at++) a.log.append('g.1', Buffer.alloc(60_000));
    await until(async () => (await count()) < 20);
    return (await count()) < 20;
  });
  await check('calls', async () => {
    b.bus.serve('trunkline.rights', async (serving) => serving.answer(serving.payload));
    a.bus.serve('trunkline.rights', async (serving) => serving.answer(serving.payload));
    const there = await a.bus.call('trunkline.rights', Buffer.from('x'), { to: b.bus.peer, deadlineMs: SOON_MS })
      .outcome;
    const back = await b.bus.call('trunkline.rights', Buffer.from('x'), { to: a.bus.peer, deadlineMs: SOON_MS })
      .outcome;
    return there.kind === 'result' && back.kind === 'result';
  });
  await check('many records', async () => {
    const bucket = b.state.bucket('trunkline_sessions', { ttlMs: 0 });
    await Promise.all(Array.from({ length: 100 }, (_, i) => bucket.create(`many.${i}`, Buffer.alloc(60_000))));
    let count = 0;
    const all = Promise.withResolvers<void>();
    const watcher = { put: () => count++, gone: () => {}, onReady: () => all.resolve() };
    const watch = await a.state.bucket('trunkline_sessions', { ttlMs: 0 }).watch('many.>', watcher);
    await all.promise;
    watch.close();
    return count === 100;
  });
  if (refused('CONSUMER.DELETE')) wrong.push('a consumer is left');
  await Promise.all([a.close(), b.close()]);
  return wrong;
}

async function node(nats: NatsServer, user: string, cluster: string | null) {
  const { core, jetStream } = await loadNats();
  const credentials = { kind: 'user', user, password: new Secret('word') } as const;
  const wire = new NatsWire(core, { servers: [nats.url], name: user, cluster, credentials, tls: null }, systemClock);
  await wire.firstAttempt;
  const denied: string[] = [];
  void (async () => {
    for await (const status of wire.connection!.status())
      if (status.type === 'error') denied.push(String(status.error));
  })();
  const state = new NatsSharedState({ wire, core, jetStream, clock: systemClock });
  const log = new NatsSharedLog(state, 16 * 1024 * 1024);
  const keys = new KeyRing([SECRET], cluster);
  const bus = new SignedBus({ wire, keys, clock: systemClock, random: systemRandom, logger: Logger.silent() });
  const close = async (): Promise<void> => {
    log.close();
    await bus.close();
    await wire.close();
  };
  return { wire, state, log, bus, denied, close };
}

/** Deletes all streams, so that the test of each right starts without any. */
async function empty(nats: NatsServer): Promise<void> {
  const { state, close } = await node(nats, 'admin', null);
  const { manager } = await state.context();
  for await (const stream of manager.streams.list()) await manager.streams.delete(stream.config.name);
  await close();
}

function userOf(name: string, text: string): string {
  return text.replace('user: node', `user: ${name}`).replace('$PASSWORD', 'word');
}

function documented(): {
  readonly user: string;
  readonly parts: readonly Part[];
  readonly streams: readonly string[];
} {
  const [, text = ''] = readFileSync(REFERENCE, 'utf8').split('## Rights of a node in NATS');
  const [, block = ''] = text.split('```nats');
  const [, written = ''] = /users: \[(\{.*?\n {2}\} \})\]/s.exec(block.split('```', 1)[0]!) ?? [];
  return {
    user: written,
    parts: [...written.matchAll(/^ +# (.*)\n(?: +".*\n)+/gm)].map(([text, without]) => ({ text, without: without! })),
    streams: [...new Set(written.match(/(?<=INFO\.)\w+/g))],
  };
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + SOON_MS;
  while (performance.now() < end && !(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
}

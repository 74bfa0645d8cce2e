import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { runTimeStoreContract } from '../../../test/contracts/run-time-store.contract.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { LossyStore } from '../../../test/support/lossy-store.ts';
import { NatsServer } from '../../../test/support/nats-server.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import { NatsSharedState } from '../../bus/nats/nats-shared-state.ts';
import { loadNats, NatsWire } from '../../bus/nats/nats-wire.ts';
import type { Bucket, SharedState } from '../../bus/shared-state.ts';
import { Sealer } from '../../gateway/sealer.ts';
import { systemClock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { systemRandom } from '../../model/random.ts';
import { sealingOf } from '../../model/sealing.ts';
import type { StoreSnapshot, StoreWrite } from '../../store/run-time-store/run-time-store.ts';
import { Logger } from '../../telemetry/logger.ts';
import { BucketRunTimeStore, MAKING } from './bucket-run-time-store.ts';

const KEY = Buffer.alloc(32, 7);
const BUCKET = 'trunkline_changes';

interface Options {
  readonly lastKnown?: StoreSnapshot | null;
  readonly keys?: readonly Buffer[];
  readonly logger?: Logger;
  readonly confirmed?: boolean;
}

function storeOn(
  state: SharedState,
  { lastKnown = null, keys = [KEY], logger = Logger.silent(), confirmed = false }: Options = {},
) {
  const sealing = sealingOf(keys, (key) => new Sealer(key));
  const deps = { state, sealing, clock: systemClock, random: systemRandom, logger };
  return new BucketRunTimeStore({ ...deps, confirmed: () => confirmed, lastKnown: () => lastKnown });
}

const memories = new Map<string, MemorySharedState>();
runTimeStoreContract('JetStream, played in memory', {
  open(name) {
    const state = memories.get(name) ?? new MemorySharedState(systemClock);
    memories.set(name, state);
    return storeOn(state);
  },
});

describe('nats-server', () => {
  let server: NatsServer;
  let wire: NatsWire;
  let state: NatsSharedState;
  // Hooks run only where tests of the suite do: a proof of a row leaves them out.
  before(async () => {
    server = await NatsServer.start();
    const { core, jetStream } = await loadNats();
    wire = new NatsWire(core, { servers: [server.url], name: 'test', credentials: null, tls: null }, systemClock);
    await wire.firstAttempt;
    state = new NatsSharedState({ wire, core, jetStream, clock: systemClock });
  });
  after(async () => {
    await wire.close();
    await server[Symbol.asyncDispose]();
  });
  runTimeStoreContract('JetStream', {
    open: (name) => storeOn({ bucket: (bucket, options) => state.bucket(`${bucket}_${name}`, options) }),
  });
});

function put(key: string, value: string, expected?: number | null): StoreWrite {
  return { kind: 'put', collection: 'c', key, value, ...(expected === undefined ? {} : { expected }) };
}

async function valuesOf(store: BucketRunTimeStore): Promise<Record<string, string>> {
  const { records } = await store.read(['c']);
  return Object.fromEntries(Array.from(records.get('c')!.values(), ({ key, value }) => [key, value]));
}

/** A store in memory that can lose everything, as its nodes see it. */
function losing() {
  const store = new LossyStore(new FakeClock());
  return { state: store.view(), lose: () => store.loseAll() };
}

test('check:A2 concurrent changes of many nodes are serialised, and all nodes have all of them', async () => {
  const state = new MemorySharedState(systemClock);
  const nodes = Array.from({ length: 5 }, () => storeOn(state));
  const changes = nodes.flatMap((node, n) =>
    Array.from({ length: 60 }, (_, i) => node.apply([put(`${n}.${i}`, `${i}`)])),
  );
  const revisions = (await Promise.all(changes)).map((applied) => applied.ok && applied.revision);
  assert.deepEqual(
    revisions.toSorted((a, b) => Number(a) - Number(b)),
    Array.from({ length: 300 }, (_, i) => i + 1),
  );
  for (const node of [...nodes, storeOn(state)]) assert.equal(Object.keys(await valuesOf(node)).length, 300);
});

test('a long log becomes a snapshot, old changes and their marks are deleted, and a node that was away reads on', async () => {
  let now = 0;
  const state = new MemorySharedState(Object.create(systemClock, { now: { value: () => (now += 10_000) } }));
  const [one, away] = [storeOn(state), storeOn(state)];
  await one.apply([put('first', '1')]);
  await valuesOf(away);
  const large = '\u{1f600}ü"'.repeat(60_000);
  for (let i = 0; i < 1_100; i++)
    await one.apply([put(`k${i % 50}`, `${i}`), ...(i % 300 === 0 ? [put('large', large + i)] : [])]);
  await one.close();
  const bucket = state.bucket(BUCKET, { ttlMs: 0 });
  const keys = await bucket.keys();
  assert.ok(keys.length < 700, `${keys.length} keys`);
  assert.ok(keys.some((key) => key.startsWith('whole.')));
  let marks = 0;
  (await bucket.watch('>', { put() {}, gone: () => marks++ })).close();
  assert.ok(marks < 600, `${marks} marks`);
  for (const node of [away, storeOn(state)]) {
    const values = await valuesOf(node);
    assert.deepEqual([values['first'], values['k49'], values['large']], ['1', '1099', `${large}900`]);
    assert.equal((await node.read([])).revision, 1_101);
  }
});

test('a node that is behind a snapshot reads the changes that it lacks, and the snapshot only where they are deleted', async () => {
  const memory = new MemorySharedState(systemClock);
  const read: string[] = [];
  const overheard: SharedState = {
    bucket(...args) {
      const bucket = memory.bucket(...args);
      const get = bucket.get.bind(bucket);
      return Object.assign(bucket, {
        get(key: string) {
          read.push(key);
          return get(key);
        },
      });
    },
  };
  const [one, behind] = [storeOn(memory), storeOn(overheard)];
  const change = async (times: number): Promise<void> => {
    for (let i = 0; i < times; i++) await one.apply([put(`k${i}`, `${i}`)]);
  };
  const snapshots = (): number => read.splice(0).filter((key) => key.startsWith('whole.')).length;
  await change(200);
  await valuesOf(behind);
  await change(100);
  assert.equal(Object.keys(await valuesOf(behind)).length, 200);
  assert.equal((await behind.read([])).revision, 300);
  assert.equal(snapshots(), 0);
  await change(600);
  assert.equal((await behind.read([])).revision, 900);
  assert.equal(snapshots(), 1);
  await Promise.all([one.close(), behind.close()]);
});

/** A store on which the compaction after the 256th change waits, before it reads the head, until `resume` is called. */
function delayed(state: SharedState) {
  const reached = Promise.withResolvers<void>();
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
  const created: string[] = [];
  let appended = false;
  const asked = async (method: string, key: unknown): Promise<void> => {
    if (method === 'restore') appended ||= key === 'change.000000000256';
    if (method === 'create') created.push(String(key));
    if (method !== 'get' || key !== 'head' || !appended || created.includes('delayed')) return;
    created.push('delayed');
    reached.resolve();
    await resumed;
  };
  const delaying: SharedState = {
    bucket: (...of) =>
      new Proxy(state.bucket(...of), {
        get(bucket, member: keyof Bucket) {
          const its: unknown = bucket[member];
          if (typeof its !== 'function') return its;
          return async (...args: unknown[]) => {
            await asked(member, args[0]);
            return Reflect.apply(its, bucket, args);
          };
        },
      }),
  };
  return { state: delaying, reached: reached.promise, resume, created };
}

async function change(store: BucketRunTimeStore, from: number, to: number): Promise<void> {
  for (let i = from; i <= to; i++) await store.apply([put(`k${i}`, `${i}`)]);
}

test('a compaction that comes after that of another node leaves the later head and its changes', async () => {
  const state = new MemorySharedState(systemClock);
  const late = delayed(state);
  const [one, other] = [storeOn(late.state), storeOn(state)];
  await change(other, 1, 255);
  await change(one, 256, 256);
  await late.reached;
  await change(other, 257, 260);
  await other.close();
  late.resume();
  await one.close();
  assert.equal(Object.keys(await valuesOf(storeOn(state))).length, 260);
});

test('fault:F28 a compaction that began before the log was lost writes nothing into the log made again', async () => {
  const lossy = losing();
  const late = delayed(lossy.state);
  const [one, other] = [storeOn(late.state), storeOn(lossy.state)];
  await change(other, 1, 255);
  await change(one, 256, 256);
  await late.reached;
  await lossy.lose();
  await change(other, 300, 300);
  late.resume();
  await one.close();
  const values = await valuesOf(storeOn(lossy.state));
  assert.deepEqual([values['k255'], values['k300']], ['255', '300']);
});

test('changes during a compaction start no other one, and the store closes after it', async () => {
  const late = delayed(new MemorySharedState(systemClock));
  const store = storeOn(late.state);
  await change(store, 1, 256);
  await late.reached;
  await change(store, 257, 266);
  let closed = false;
  const closing = store.close().then(() => {
    closed = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(closed, false);
  late.resume();
  await closing;
  assert.equal(late.created.filter((key) => key.startsWith('whole.')).length, 1);
});

test('fault:F28 a lost log is made again by a node that runs, and no later change gets an earlier revision', async () => {
  const lossy = losing();
  const [a, b] = [storeOn(lossy.state), storeOn(lossy.state)];
  await a.apply([put('x', '1')]);
  await b.apply([put('y', '1')]);
  await valuesOf(a);
  await lossy.lose();
  assert.deepEqual(await valuesOf(a), { x: '1', y: '1' });
  assert.deepEqual(await valuesOf(b), { x: '1', y: '1' });
  assert.deepEqual(await b.apply([put('x', '2', 1)]), { ok: true, revision: 3 });
  assert.deepEqual(await valuesOf(a), { x: '2', y: '1' });
  assert.deepEqual(await valuesOf(storeOn(lossy.state)), { x: '2', y: '1' });
});

test('fault:F28 another node completes a log made again by one that knew less, deletions too; newer changes stay', async () => {
  const lossy = losing();
  const [less, more] = [storeOn(lossy.state), storeOn(lossy.state)];
  await less.apply([put('kept', '1'), put('changed', '1'), put('deleted', '1'), put('newer', '1')]);
  await more.apply([put('changed', '2'), put('added', '2')]);
  await more.apply([{ kind: 'delete', collection: 'c', key: 'deleted' }]);
  await lossy.lose();
  assert.equal((await valuesOf(less))['changed'], '1', 'it makes the log again');
  await less.apply([put('newer', '9')]);
  const whole = { kept: '1', changed: '2', newer: '9', added: '2' };
  assert.deepEqual(await valuesOf(more), whole);
  assert.deepEqual(await valuesOf(less), whole);
  assert.ok((await less.read([])).revision > 3);
});

test('fault:F28 a log that is lost while all nodes are down is made again from the copy of one, never from nothing', async () => {
  const lossy = losing();
  const first = storeOn(lossy.state);
  await first.apply([put('x', '1')]);
  const copy = await first.read([MAKING, 'c']);
  await first.apply([put('y', '2')]);
  await lossy.lose();
  assert.deepEqual(await valuesOf(storeOn(lossy.state, { lastKnown: copy })), { x: '1' });
  // A node without a copy starts first: the node with the copy adds its records.
  await lossy.lose();
  const anew = storeOn(lossy.state);
  await anew.apply([put('z', '3')]);
  const completed = storeOn(lossy.state, { lastKnown: copy });
  assert.deepEqual(await valuesOf(completed), { x: '1', z: '3' });
  // The same log: the copy is older, and adds nothing.
  await completed.apply([{ kind: 'delete', collection: 'c', key: 'x' }]);
  const later = await completed.read([MAKING, 'c']);
  await completed.apply([put('x', '4')]);
  await completed.apply([{ kind: 'delete', collection: 'c', key: 'x' }]);
  assert.deepEqual(await valuesOf(storeOn(lossy.state, { lastKnown: later })), { z: '3' });
});

test('while JetStream is away the store refuses changes and reads, and no refused change is made later', async () => {
  const lossy = losing();
  const store = storeOn(lossy.state);
  await store.apply([put('x', '1')]);
  lossy.state.away = true;
  await assert.rejects(store.apply([put('x', '2')]), { fault: 'unavailable', message: /JetStream: .*is away/ });
  await assert.rejects(store.read(['c']), { fault: 'unavailable' });
  lossy.state.away = false;
  assert.deepEqual(await valuesOf(store), { x: '1' });
});

test('a change without an answer succeeds if the store finds it written; otherwise its result is unknown', async () => {
  const state = new MemorySharedState(systemClock);
  let lost: 'answer' | 'all' | null = null;
  const flaky: SharedState = {
    bucket: (name, options) => {
      const bucket = state.bucket(name, options);
      const it: typeof bucket = Object.create(bucket);
      it.restore = async (key, value) => {
        if (lost === null) return bucket.restore(key, value);
        if (lost === 'answer') await bucket.restore(key, value);
        throw new GatewayError('UNKNOWN', 'timeout');
      };
      for (const method of ['get', 'look', 'create', 'update', 'delete', 'keys', 'watch'] as const)
        Object.assign(it, { [method]: bucket[method].bind(bucket) });
      return it;
    },
  };
  const store = storeOn(flaky);
  await store.apply([put('x', '1')]);
  lost = 'answer';
  assert.deepEqual(await store.apply([put('x', '2')]), { ok: true, revision: 2 });
  lost = 'all';
  await assert.rejects(store.apply([put('x', '3')]), { fault: 'unknown' });
  lost = null;
  assert.deepEqual(await store.apply([put('x', '4', 2)]), { ok: true, revision: 3 });
});

test('a log sealed with another secret, or a change sealed for another key, is refused', async () => {
  const state = new MemorySharedState(systemClock);
  await storeOn(state).apply([put('x', '1')]);
  const other = [Buffer.alloc(32, 8)];
  await assert.rejects(storeOn(state, { keys: other }).read(['c']), {
    fault: 'unavailable',
    message: /another cluster.secret/,
  });
  const bucket = state.bucket(BUCKET, { ttlMs: 0 });
  const { value } = (await bucket.get('change.000000000001'))!;
  await bucket.create('change.000000000002', value);
  await assert.rejects(storeOn(state).read(['c']), { fault: 'damaged', message: /change\.000000000002/ });
});

test('S0.19 while the secret changes, a node with both secrets seals the log anew with the new one', async () => {
  const state = new MemorySharedState(systemClock);
  const [before, after] = [KEY, Buffer.alloc(32, 8)];
  await storeOn(state, { keys: [before] }).apply([put('x', 'y'.repeat(250_000))]);
  const both = storeOn(state, { keys: [after, before] });
  assert.equal((await valuesOf(both))['x']!.length, 250_000);
  const now = () => valuesOf(storeOn(state, { keys: [after] })).catch(() => null);
  for (let i = 0; i < 100 && (await now()) === null; i++) await new Promise((done) => setTimeout(done, 20));
  assert.equal((await now())?.['x']?.length, 250_000);
  await both.close();
});

test('a log of a former secret is replaced with what the node knew once the cluster has the new secret', async () => {
  const state = new MemorySharedState(systemClock);
  const former = storeOn(state);
  for (const value of ['1', '2']) await former.apply([put('x', value)]);
  const lastKnown = await former.read([MAKING, 'c']);
  const [one, two] = [0, 1].map(() => storeOn(state, { keys: [Buffer.alloc(32, 8)], confirmed: true, lastKnown }));
  assert.deepEqual(await valuesOf(one!), { x: '2' });
  await two!.apply([put('y', '3')]);
  assert.deepEqual(await valuesOf(one!), { x: '2', y: '3' });
});

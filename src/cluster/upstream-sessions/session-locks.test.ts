import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import type { Bus } from '../../bus/bus.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import type { Bucket, SharedState } from '../../bus/shared-state.ts';
import { Sealer } from '../../gateway/sealer.ts';
import { type Clock, pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { SessionMember, UpstreamSessionRef } from '../../model/ports.ts';
import { sealingOf } from '../../model/sealing.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { NodeView } from '../nodes/node-state.ts';
import type { Claims } from '../ownership/claims.ts';
import { ClusterUpstreamSessions } from './cluster-upstream-sessions.ts';

const KEY = Buffer.alloc(32, 7);
const PLACE: UpstreamSessionRef = { server: 'web', identity: 'i', key: 'k' };
const RECORD = { identity: 'i', mcpSessionId: 's', hello: '{}', revision: '2025-11-25', fingerprint: '{}' };

/** A store that can leave updates, or all requests, without an answer. */
class Store implements SharedState {
  silent = false;
  mute = false;
  /** Creates are stored, but get no answer. */
  unheard = false;
  readonly #state: SharedState;
  readonly #clock: Clock;

  constructor(state: SharedState, clock: Clock) {
    this.#state = state;
    this.#clock = clock;
  }

  bucket(...args: Parameters<SharedState['bucket']>): Bucket {
    const bucket = this.#state.bucket(...args);
    const answers = async (): Promise<void> => {
      if (!this.mute) return;
      await pause(this.#clock, 2_000);
      throw new GatewayError('UNKNOWN', 'no answer');
    };
    const update: typeof bucket.update = async (...written) => {
      if (this.silent) throw new GatewayError('UNKNOWN', 'no answer');
      return bucket.update(...written);
    };
    const unheard = (): boolean => this.unheard;
    const create: typeof bucket.create = async (...written) => {
      await bucket.create(...written);
      throw new GatewayError('UNKNOWN', 'no answer');
    };
    return new Proxy(bucket, {
      get(_target, name) {
        if (name === 'update') return update;
        if (name === 'create' && unheard()) return create;
        const value = Reflect.get(bucket, name);
        return typeof value === 'function'
          ? (...asked: unknown[]) => answers().then(() => Reflect.apply(value, bucket, asked))
          : value;
      },
    });
  }
}

function node(peer: string, state: SharedState, clock: FakeClock, keys = [KEY]): ClusterUpstreamSessions {
  const bus = { peer, connected: true, subscribe: () => ({ close: () => {} }), publish: () => {} };
  return new ClusterUpstreamSessions(
    {
      bus: bus as unknown as Bus,
      state,
      clock,
      logger: Logger.silent(),
      sealing: sealingOf(keys, (key) => new Sealer(key)),
    },
    { lives: async () => true } as unknown as Claims,
    { able: true },
    { get: () => ({}) as NodeView },
    { instances: () => ['another'] },
  );
}

test('S0.20 a lock whose release the store did not accept is free soon, though its node lives', async () => {
  const clock = new FakeClock();
  const state = new MemorySharedState(clock);
  const store = new Store(state, clock);
  const [a, b] = [node('a', store, clock), node('b', state, clock)];
  const lock = await a.acquire(PLACE, null, () => true);
  assert.ok(lock.kind === 'lock');
  store.silent = true;
  await assert.rejects(lock.opened(RECORD), { code: 'UNKNOWN' });
  store.silent = false;
  let entered: string | null = null;
  const wanted = { still: true };
  const entering = b
    .acquire(PLACE, null, () => wanted.still)
    .then(
      ({ kind }) => (entered = kind),
      () => {},
    );
  for (let passed = 0; passed < 5_000 && entered === null; passed += 50) {
    await clock.advance(50);
    await settled();
  }
  wanted.still = false;
  await clock.advance(1_000);
  await entering;
  assert.equal(entered, 'lock');
});

/** A connection that does nothing. */
function member(): SessionMember {
  return {
    listens: false,
    generationChanged: () => {},
    listen: () => {},
    stopListening: () => null,
    replaced: () => {},
  };
}

/** Lets time pass until the promise has settled; resolves with how long that was. */
async function passing(clock: FakeClock, work: Promise<unknown>): Promise<number> {
  const since = clock.now();
  let over = false;
  void work.finally(() => {
    over = true;
  });
  while (!over && clock.now() - since < 60_000) {
    await clock.advance(50);
    await settled();
  }
  return clock.now() - since;
}

test('S0.20 a store that is connected and does not answer for some seconds makes no node open a second session', async () => {
  const clock = new FakeClock();
  const state = new MemorySharedState(clock);
  const store = new Store(state, clock);
  const [a, b] = [node('a', state, clock), node('b', store, clock)];
  const lock = await a.acquire(PLACE, null, () => true);
  assert.ok(lock.kind === 'lock');
  await lock.opened(RECORD);
  await b.isOpen(PLACE);
  store.mute = true;
  const entering = b.acquire(PLACE, null, () => true);
  clock.after(3_500, () => {
    store.mute = false;
  });
  await passing(clock, entering);
  const entered = await entering;
  assert.ok(entered.kind === 'open');
  assert.equal(entered.record.mcpSessionId, RECORD.mcpSessionId);
});

test('S0.20 a node that gets no answer from the store opens a session alone, the next one sooner, and publishes it when the store answers', async () => {
  const clock = new FakeClock();
  const state = new MemorySharedState(clock);
  const store = new Store(state, clock);
  const [a, b] = [node('a', store, clock), node('b', state, clock)];
  await a.isOpen(PLACE);
  store.mute = true;
  const first = a.acquire(PLACE, null, () => true);
  const waitedMs = await passing(clock, first);
  assert.ok(waitedMs >= 5_000 && waitedMs <= 8_000, String(waitedMs));
  const lock = await first;
  assert.ok(lock.kind === 'lock');
  await lock.opened(RECORD);
  a.join(PLACE, member());
  const second = a.acquire({ ...PLACE, key: 'another' }, null, () => true);
  assert.ok((await passing(clock, second)) <= 2_100, 'the second call does not wait again');
  store.mute = false;
  for (let i = 0; i < 40; i++) {
    await clock.advance(100);
    await settled();
  }
  const entered = await b.acquire(PLACE, null, () => true);
  assert.ok(entered.kind === 'open', 'four seconds later, not half a minute');
});

test('S0.19 while the secret changes a session stays the same, also unused until the old secret is gone', async () => {
  const clock = new FakeClock();
  const state = new MemorySharedState(clock);
  const [old, anew] = [KEY, Buffer.alloc(32, 8)];
  const first = node('a', state, clock, [old]);
  const lock = await first.acquire(PLACE, null, () => true);
  assert.ok(lock.kind === 'lock');
  const generation = await lock.opened(RECORD);
  const both = node('b', state, clock, [anew, old]);
  for (let i = 0; i < 20; i++) {
    await clock.advance(1_000);
    await settled();
  }
  const third = node('c', state, clock, [anew]);
  for (const one of [third, both]) {
    const entered = await one.acquire(PLACE, null, () => true);
    assert.ok(entered.kind === 'open');
    assert.deepEqual([entered.record.mcpSessionId, entered.generation], [RECORD.mcpSessionId, generation]);
  }
});

test('S0.20 a store that can be read and accepts no writes does not delay a caller longer, and leaves no lock behind', async () => {
  const clock = new FakeClock();
  const state = new MemorySharedState(clock);
  const store = new Store(state, clock);
  const [a, b] = [node('a', state, clock), node('b', store, clock)];
  const lock = await a.acquire(PLACE, null, () => true);
  assert.ok(lock.kind === 'lock');
  await lock.opened(RECORD);
  store.silent = true;
  const first = b.acquire(PLACE, null, () => true);
  const waitedMs = await passing(clock, first);
  assert.ok(waitedMs >= 3_000 && waitedMs <= 5_000, String(waitedMs));
  assert.equal((await first).kind, 'lock');
  const second = b.acquire(PLACE, null, () => true);
  assert.ok((await passing(clock, second)) <= 100, 'the second call does not wait again');
});

test('S0.20 a caller that gives up while the store does not answer does not block the next caller', async () => {
  const clock = new FakeClock();
  const state = new MemorySharedState(clock);
  const store = new Store(state, clock);
  const [a, b] = [node('a', store, clock), node('b', state, clock)];
  // The store applies the write of `a`, but `a` gets no answer.
  store.unheard = true;
  let wanted = true;
  const entering = a.acquire(PLACE, null, () => wanted);
  entering.catch(() => {});
  await clock.advance(50);
  await settled();
  wanted = false;
  await passing(
    clock,
    entering.catch(() => {}),
  );
  await assert.rejects(entering, { code: 'NOT_SENT' });
  store.unheard = false;
  const next = b.acquire(PLACE, null, () => true);
  assert.ok((await passing(clock, next)) <= 5_000);
  assert.equal((await next).kind, 'lock');
});

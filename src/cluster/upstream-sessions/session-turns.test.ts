import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import type { Bus } from '../../bus/bus.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import type { SharedState } from '../../bus/shared-state.ts';
import { Sealer } from '../../gateway/sealer.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { systemRandom } from '../../model/random.ts';
import { ID_BLOCK, type SessionMember, type SessionPlace } from '../../model/shared-upstream-sessions.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { Claims } from '../ownership/claims.ts';
import { ClusterUpstreamSessions } from './cluster-upstream-sessions.ts';

const PLACE: SessionPlace = { server: 'web', identity: 'i', key: 'k' };
const RECORD = { identity: 'i', mcpSessionId: 's', hello: '{}', revision: '2025-11-25', fingerprint: '{}' };

/** The store, which may leave a write without an answer. */
class Store implements SharedState {
  silent = false;
  readonly #state: SharedState;

  constructor(state: SharedState) {
    this.#state = state;
  }

  async bucket(...args: Parameters<SharedState['bucket']>): ReturnType<SharedState['bucket']> {
    const bucket = await this.#state.bucket(...args);
    const update: typeof bucket.update = async (...written) => {
      if (this.silent) throw new GatewayError('UNKNOWN', 'no answer');
      return bucket.update(...written);
    };
    return new Proxy(bucket, {
      get(_target, name) {
        if (name === 'update') return update;
        const value = Reflect.get(bucket, name);
        return typeof value === 'function' ? value.bind(bucket) : value;
      },
    });
  }
}

function node(peer: string, state: SharedState, clock: FakeClock): ClusterUpstreamSessions {
  const bus = { peer, status: { state: 'connected' }, subscribe: () => ({ close: () => {} }), publish: () => {} };
  return new ClusterUpstreamSessions({
    bus: bus as unknown as Bus,
    state,
    clock,
    random: systemRandom,
    logger: Logger.silent(),
    sealing: new Sealer(Buffer.alloc(32, 7)),
    claims: { lives: async () => true } as unknown as Claims,
    able: () => true,
    there: () => true,
    hasOtherHomes: () => true,
  });
}

test('S0.20 a turn whose end the store did not take is nobody’s soon, though its node lives and wants it no more', async () => {
  const clock = new FakeClock();
  const state = new MemorySharedState(clock);
  const store = new Store(state);
  const [a, b] = [node('a', store, clock), node('b', state, clock)];
  const turn = await a.enter(PLACE, null, () => true);
  assert.ok(turn.kind === 'turn');
  store.silent = true;
  await assert.rejects(turn.opened(RECORD), { code: 'UNKNOWN' });
  store.silent = false;
  let entered: string | null = null;
  const wanted = { still: true };
  const entering = b
    .enter(PLACE, null, () => wanted.still)
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
  assert.equal(entered, 'turn');
  a.close();
  b.close();
});

/** A connection of which nothing is known but where it was told to number its requests. */
function member(numbered: number[]): SessionMember {
  return {
    listens: false,
    numberAfter: (id) => void numbered.push(id),
    renamed: () => {},
    listen: () => {},
    silence: () => null,
    replaced: () => {},
  };
}

test('check:B4 whose ids are spent gets a block that no other node was given, however many use the session meanwhile', async () => {
  const clock = new FakeClock();
  const state = new MemorySharedState(clock);
  const nodes = ['a', 'b', 'c'].map((peer) => node(peer, state, clock));
  const [a, b, c] = nodes as [ClusterUpstreamSessions, ClusterUpstreamSessions, ClusterUpstreamSessions];
  const numbered: number[] = [];
  const turn = await a.enter(PLACE, null, () => true);
  assert.ok(turn.kind === 'turn');
  await turn.opened(RECORD);
  const user = member(numbered);
  a.join(PLACE, user);
  const given: number[] = [0];
  const goOn = async (at: ClusterUpstreamSessions): Promise<void> => {
    const entered = await at.enter(PLACE, null, () => true);
    assert.ok(entered.kind === 'open');
    given.push(entered.idsAfter);
  };
  await goOn(b);
  await clock.advance(60_000);
  await settled();
  assert.deepEqual(numbered, [], 'while there are ids left');
  for (let i = 0; i < 2; i++) {
    a.idsSpent(PLACE, user);
    await clock.advance(60_000);
    await settled();
    await goOn(c);
  }
  assert.equal(numbered.length, 2);
  const all = [...given, ...numbered];
  assert.equal(new Set(all).size, all.length, all.join());
  for (const id of all) assert.equal(id % ID_BLOCK, 0);
  for (const one of nodes) one.close();
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StreamInfo } from '@nats-io/jetstream';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { NatsServer } from '../../../test/support/nats-server.ts';
import { systemClock } from '../../model/clock.ts';
import { type JetStreamContext, makeStream } from './jetstream.ts';
import { NatsSharedState } from './nats-shared-state.ts';
import { loadNats, NatsWire } from './nats-wire.ts';

const MADE = '2026-11-23T13:54:52.011922064Z';

/** A server on which another node is creating the stream: its first `times` answers lack the time of creation. */
function beingMade(times: number) {
  const clock = new FakeClock();
  let asked = 0;
  const info = async (name: string): Promise<StreamInfo> => {
    const created = asked++ < times ? '0001-01-01T00:00:00Z' : MADE;
    return { created, config: { name } } as StreamInfo;
  };
  const reach = { clock, manager: { streams: { info } }, replicas: { look: () => {} } } as unknown as JetStreamContext;
  return { clock, made: makeStream(reach, 'KV_claims', {}, []), asked: () => asked };
}

async function pass(clock: FakeClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 10) {
    await settled();
    await clock.advance(10);
  }
}

test('check:H4 a store that another node is creating does not count as a new incarnation', async () => {
  for (const times of [0, 1, 5]) {
    const { clock, made, asked } = beingMade(times);
    await pass(clock, 100);
    assert.equal(await made, MADE);
    assert.equal(asked(), times + 1);
  }
});

test('a node stops asking a server that never reports when a store was created, and fails with NOT_SENT', async () => {
  const { clock, made } = beingMade(Number.POSITIVE_INFINITY);
  const refused = assert.rejects(made, { outcome: 'NOT_SENT' });
  await pass(clock, 2_000);
  await refused;
});

test('check:H4 nodes that create a store at the same time create one, and all know its time', {
  timeout: 60_000,
}, async () => {
  await using server = await NatsServer.start();
  const { core, jetStream } = await loadNats();
  const options = { servers: [server.url], name: 'test', credentials: null, tls: null };
  const wires = Array.from({ length: 4 }, () => new NatsWire(core, options, systemClock));
  try {
    await Promise.all(wires.map((wire) => wire.firstAttempt));
    const states = wires.map((wire) => new NatsSharedState({ wire, core, jetStream, clock: systemClock }));
    for (let store = 0; store < 10; store++) {
      const making = states.map((state) => state.makeStream(`store_${store}`, { ttlMs: 0 }));
      const [first, ...others] = await Promise.all(making);
      assert.match(first!, /^20/);
      assert.deepEqual(new Set(others), new Set([first]));
    }
  } finally {
    for (const wire of wires) await wire.close();
  }
});

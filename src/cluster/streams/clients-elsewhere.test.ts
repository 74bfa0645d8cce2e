import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterBench, memoryBus, TestExchange, wordOf } from '../../../test/support/cluster-bench.ts';
import type { Payload } from '../../bus/bus.ts';
import { failureJson } from '../../bus/calls/failure-json.ts';
import { pause } from '../../model/clock.ts';
import { AGGREGATE } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { packFrame } from '../frames/frame.ts';
import { LEASE_MS, LEASES, leaseKey } from '../nodes/lease-record.ts';

const POST = { sessionId: 's', principal: 'anonymous', endpoint: '/mcp', body: Buffer.from('{}') };

test('check:C9 the other nodes also release a resource, unless its name is too long for a hint', async () => {
  const bench = new ClusterBench();
  const heard: string[] = [];
  const a = await bench.join('a', []);
  await bench.join('b', [], {
    gateway: {
      givenUp: (_sessionId, _server, uri) => void heard.push(uri),
      subscribeAgain: async () => 'later',
      mayHaveChanged: () => {},
    },
  });
  a.cluster.clients.givenUp('s', 'web', 'x'.repeat(600_000));
  a.cluster.clients.givenUp('s', 'web', 'web://short');
  await bench.pass(50);
  assert.deepEqual(heard, ['web://short']);
  await bench.dispose();
});

test('the failure of a call that waited at another node is reported as it was, in the form that earlier versions know', async () => {
  const bench = new ClusterBench();
  const [a, b] = [await bench.join('a', []), memoryBus(bench.hub, bench.clock)];
  const error = new GatewayError('UNKNOWN', 'the server died');
  b.serve('trunkline.returned', (serving) => serving.answer(packFrame({ kind: 'failure' }, [failureJson(error)])));
  const outcome = a.cluster.clients.returned(b.peer, new TestExchange(), AGGREGATE);
  await bench.pass(50);
  assert.equal(wordOf(await outcome), 'UNKNOWN');
  await bench.dispose();
  await b.close();
});

test('after a reply that this node cannot read, the outcome at the other node is unknown', async () => {
  const bench = new ClusterBench();
  const [a, b] = [await bench.join('a', []), memoryBus(bench.hub, bench.clock)];
  let reply: Payload = [];
  for (const name of ['returned', 'posted']) b.serve(`trunkline.${name}`, (serving) => serving.answer(reply));
  for (reply of [
    packFrame({ kind: 'failure', status: 202 }, [], 99),
    packFrame({ kind: 'failure' }, [Buffer.from('null')]),
    packFrame({ kind: 'answer' }),
  ]) {
    const returned = a.cluster.clients.returned(b.peer, new TestExchange(), AGGREGATE);
    assert.equal(wordOf(await bench.until(returned)), 'UNKNOWN');
  }
  reply = [Buffer.from('no frame')];
  await bench.state.bucket(LEASES, { ttlMs: LEASE_MS }).create(leaseKey(b.peer), Buffer.from('{}'));
  const { status, text } = (await bench.until(a.cluster.clients.posted(b.peer, POST)))!;
  assert.equal(status, 502);
  assert.match(text, /cannot be read/);
  await bench.dispose();
  await b.close();
});

test('a post to a node without heartbeats is answered with 503 until the lease of the node is over', async () => {
  const bench = new ClusterBench();
  const a = await bench.join('a', []);
  const silent = 'd'.repeat(16);
  const leases = bench.state.bucket(LEASES, { ttlMs: LEASE_MS });
  await leases.create(leaseKey(silent), Buffer.from('{}'));
  const statusAt = async (peer: string): Promise<number | null> =>
    (await bench.until(a.cluster.clients.posted(peer, POST)))?.status ?? null;
  assert.equal(await statusAt(silent), 503);
  await leases.delete(leaseKey(silent));
  assert.equal(await statusAt(silent), null);
  // Clients can send any text as peer.
  for (const peer of ['', '>', `${silent}.x`]) assert.equal(await statusAt(peer), null);
  a.cut();
  assert.equal(await statusAt(silent), 503, 'without the bus no lease can be read');
  a.restore();
  await bench.dispose();
});

test('the lease of a dead node is read once at a time, however many of its clients reconnect here', async () => {
  const bench = new ClusterBench();
  const a = await bench.join('a', []);
  const dead = 'd'.repeat(16);
  const leases = bench.state.bucket(LEASES, { ttlMs: LEASE_MS });
  await leases.create(leaseKey(dead), Buffer.from('{}'));
  const get = leases.get.bind(leases);
  let [reads, running, most] = [0, 0, 0];
  leases.get = async (key) => {
    if (key !== leaseKey(dead)) return get(key);
    reads++;
    most = Math.max(most, ++running);
    await pause(bench.clock, 50);
    running--;
    return get(key);
  };
  const open = () => assert.fail('no node has the stream');
  const resumed = Array.from({ length: 50 }, () => a.cluster.clients.resume('s', `g1.${dead}.1`, open));
  await bench.pass(1_000);
  await leases.delete(leaseKey(dead));
  assert.deepEqual(new Set(await bench.until(Promise.all(resumed))), new Set(['gone']));
  assert.equal(most, 1);
  assert.ok(reads <= 20, `${reads} reads`);
  await bench.dispose();
});

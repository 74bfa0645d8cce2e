import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulScript, statefulServer } from '../../../test/support/scripted-server.ts';
import { clientOf, httpServerOf, serverOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';

const WAIT_MS = 2_000;
const hangs = () => new ScriptedServer({ ...statefulServer(), 'server/discover': () => SILENCE });
const kinds = ['{}', '{"sampling":{}}', '{"roots":{}}', '{"elicitation":{}}'].map((capabilities, i) =>
  clientOf(`s${i}`, capabilities),
);

/** The tools in the answer to a list by now; `waits` while there is no answer, null if it came without them. */
async function soFar(listing: Promise<ServerCatalog | null>): Promise<readonly string[] | null | 'waits'> {
  let answer: readonly string[] | null | 'waits' = 'waits';
  void listing.then((catalog) => {
    answer = catalog === null ? null : catalog.lists.tools.items.map(({ key }) => key);
  });
  await settled();
  return answer;
}

test('fault:F01 goal:G13 a start that hangs delays lists in its first two seconds only, for every kind of client', async () => {
  const bench = new UpstreamBench();
  await bench.run([serverOf('a', { start: 'eager' }), hangs()]);
  const list = (i: number) => bench.set.catalog('a', kinds[i]!, WAIT_MS, true);
  await bench.clock.advance(500);
  const [first, second] = [list(0), list(1)];
  await bench.clock.advance(1_499);
  assert.deepEqual(await Promise.all([soFar(first), soFar(second)]), ['waits', 'waits']);
  await bench.clock.advance(1);
  assert.deepEqual(await Promise.all([soFar(first), soFar(second)]), [null, null]);
  assert.equal(bench.set.status('a')!.state, 'starting');
  assert.equal(await soFar(list(2)), null);
  // A client that wants this server alone goes on waiting.
  assert.equal(await soFar(bench.set.catalog('a', kinds[3]!, WAIT_MS)), 'waits');
});

test('fault:F01 goal:G13 a failed server delays no list, also while it is tried again', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.open = (kind) => {
    const link = ScriptedServer.prototype.open.call(script, kind);
    link.open = () => Promise.reject(new GatewayError('NOT_SENT', 'nobody is there'));
    return link;
  };
  await bench.run([httpServerOf('a', { start: 'eager' }), script]);
  assert.equal(bench.set.status('a')!.state, 'failed');
  // The next attempt is made when it is due, and gets no answer.
  script.open = (kind) => ScriptedServer.prototype.open.call(script, kind);
  script.handlers['server/discover'] = () => SILENCE;
  assert.equal(await soFar(bench.set.catalog('a', kinds[0]!, WAIT_MS, true)), null);
  await bench.clock.advance(30_000);
  assert.equal(bench.set.status('a')!.state, 'starting');
  assert.equal(await soFar(bench.set.catalog('a', kinds[1]!, WAIT_MS, true)), null);
});

test('goal:G13 the wait for a server that waits for its turn counts from when it was due', async () => {
  const bench = new UpstreamBench();
  const names = ['a', 'b', 'c', 'd', 'e'];
  await bench.run(...names.map((name) => [serverOf(name, { start: 'eager' }), hangs()] as const));
  assert.equal(bench.set.status('e')!.reason, 'waiting to start');
  await bench.clock.advance(WAIT_MS);
  assert.equal(bench.set.status('e')!.reason, 'waiting to start');
  assert.equal(await soFar(bench.set.catalog('e', kinds[0]!, WAIT_MS, true)), null);
  assert.equal(bench.set.status('e')!.reason, 'waiting to start');
});

test('goal:G13 a list waits the usual time for a server behind a URL that has a listener, otherwise half a second', async () => {
  const bench = new UpstreamBench();
  const there = hangs();
  there.isThere = true;
  const names = ['there', 'gone'];
  await bench.run(
    [httpServerOf('there', { start: 'eager' }), there],
    [httpServerOf('gone', { start: 'eager' }), hangs()],
  );
  const lists = names.map((name) => bench.set.catalog(name, kinds[0]!, WAIT_MS, true));
  await bench.clock.advance(499);
  assert.deepEqual(await Promise.all(lists.map(soFar)), ['waits', 'waits']);
  await bench.clock.advance(1);
  assert.deepEqual(await Promise.all(lists.map(soFar)), ['waits', null]);
  await bench.clock.advance(WAIT_MS - 500);
  assert.deepEqual(await Promise.all(lists.map(soFar)), [null, null]);
  assert.deepEqual(
    names.map((name) => bench.set.status(name)!.state),
    ['starting', 'starting'],
  );
});

test('fault:F01 lists of all servers retry no server early, however many lists there are; a call does', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statefulServer());
  script.openFails = new GatewayError('NOT_SENT', 'nobody is there');
  await bench.run([httpServerOf('a', { start: 'eager' }), script]);
  assert.equal(bench.set.status('a')!.state, 'failed');
  const attempts = script.links.length;
  for (let i = 0; i < 5; i++) {
    await bench.clock.advance(5_000);
    assert.equal(await soFar(bench.set.catalog('a', kinds[i % kinds.length]!, WAIT_MS, true)), null);
  }
  assert.equal(script.links.length, attempts);
  const outcome = await bench.call('a', toolCall(kinds[0]!));
  assert.equal(outcome.kind, 'failure');
  assert.equal(script.links.length, attempts + 1);
});

test('S2.11 while 64 kinds of client wait for their lists, a further one gets those of others and starts nothing', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  script.handlers['tools/list'] = () => SILENCE;
  const odd = (i: number) => clientOf(`s${i}`, `{"experimental":{"n${i}":{}}}`);
  for (let i = 0; i < 64; i++) void bench.set.catalog('a', odd(i), 0, true);
  await settled();
  assert.deepEqual(await soFar(bench.set.catalog('a', odd(64), WAIT_MS)), ['echo']);
});

test('S2.11 lazy servers start a few at a time when one list needs all of them', async () => {
  const bench = new UpstreamBench();
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  await bench.run(...names.map((name) => [serverOf(name), hangs()] as const));
  for (const name of names) void bench.set.catalog(name, kinds[0]!, WAIT_MS, true);
  await settled();
  const begun = () => names.filter((name) => bench.scripts.get(name)!.links.length > 0);
  assert.deepEqual(begun(), ['a', 'b', 'c', 'd']);
  assert.deepEqual([bench.set.status('d')!.reason, bench.set.status('e')!.reason], [null, 'waiting to start']);
  await bench.clock.advance(5_000);
  assert.deepEqual(begun(), names);
});

test('S2.11 a starting process keeps its place until it ends, and one that hangs loses it after 20 s', async () => {
  const bench = new UpstreamBench();
  const silent = () =>
    new ScriptedServer({ ...statefulServer(), 'server/discover': () => SILENCE, initialize: () => SILENCE });
  const names = ['a', 'b', 'c', 'd', 'e'];
  await bench.run(...names.map((name) => [serverOf(name, { start: 'eager' }), silent()] as const));
  await bench.clock.advance(19_999);
  assert.equal(bench.scripts.get('e')!.links.length, 0);
  await bench.clock.advance(1);
  assert.equal(bench.scripts.get('e')!.links.length, 1);
});

test('a server that is removed, or suspended, while it waits for its turn to start never starts', async () => {
  const bench = new UpstreamBench();
  const names = ['a', 'b', 'c', 'd', 'removed', 'suspended', 'g'];
  const servers = new Map(names.map((name) => [name, serverOf(name, { start: 'eager' })]));
  await bench.run(...names.map((name) => [servers.get(name)!, hangs()] as const));
  servers.delete('removed');
  servers.set('suspended', { ...servers.get('suspended')!, enabled: false });
  void bench.set.apply(new Map(servers));
  await settled();
  await bench.clock.advance(5_000);
  assert.equal(bench.scripts.get('removed')!.links.length, 0);
  assert.equal(bench.scripts.get('suspended')!.links.length, 0);
  assert.equal(bench.scripts.get('g')!.links.length, 1);
});

test('S2.11 a lazy server has its whole start time from its first use, and so has one that is up', async () => {
  const bench = new UpstreamBench();
  const slow = new ScriptedServer({ ...statefulServer(), 'tools/list': () => SILENCE });
  await bench.run([serverOf('lazy'), hangs()], [serverOf('slow'), slow]);
  await bench.clock.advance(60_000);
  const lists = ['lazy', 'slow'].map((name) => bench.set.catalog(name, kinds[0]!, WAIT_MS, true));
  await settled();
  await bench.clock.advance(WAIT_MS - 1);
  assert.deepEqual(await Promise.all(lists.map(soFar)), ['waits', 'waits']);
  await bench.clock.advance(1);
  assert.deepEqual(await Promise.all(lists.map(soFar)), [null, null]);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, scriptedTool, statefulServer } from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  httpServerOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';

const names = (catalog: ServerCatalog | null) => catalog?.lists.tools.items.map(({ key }) => key);

/** Its tool list has three pages, each of which arrives later than its request. */
function paged(): ScriptedServer {
  return new ScriptedServer({
    ...statefulServer(),
    'tools/list': (params, link, id) => {
      const page = Number(params?.['cursor'] ?? '1');
      const rest = page < 3 ? { nextCursor: `${page + 1}` } : {};
      setImmediate(() => link.respond(id, { tools: [scriptedTool(`tool-${page}`)], ...rest }));
      return SILENCE;
    },
  });
}

test('concurrent lists for several kinds of client are read to the last page over connections that stay', async () => {
  const bench = new UpstreamBench();
  await bench.run([serverOf('a'), paged()]);
  const kinds = ['{}', '{"roots":{}}', '{"sampling":{}}', '{"elicitation":{}}'].map((kind) => clientOf(null, kind));
  const catalogs = await Promise.all(kinds.map((kind) => bench.set.catalog('a', kind, 1000)));
  assert.deepEqual(catalogs.map(names), Array(4).fill(['tool-1', 'tool-2', 'tool-3']));
});

test('a list that was read over the connection of a session that ends is read over another one at once', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statefulServer());
  await bench.run([httpServerOf('a'), script]);
  const client = clientOf('one');
  answerText(await bench.call('a', toolCall(client)));
  await bench.set.catalog('a', client, 1000);
  script.handlers['tools/list'] = () => SILENCE;
  script.last.deliver({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
  await bench.clock.advance(2_000);
  script.handlers['tools/list'] = () => ({ tools: [scriptedTool('new')] });
  bench.set.releaseSession('one');
  await settled();
  assert.deepEqual(names(bench.set.knownCatalog('a', client)), ['new']);
  assert.deepEqual(
    script.links.map((link) => link.count('tools/list')),
    [2, 1],
  );
});

test('a list that ends with its server’s run starts no other run', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/list': () => SILENCE });
  const server = serverOf('a');
  await bench.run([server, script]);
  const listing = bench.set.catalog('a', clientOf('one'), 1000);
  await settled();
  assert.equal(script.last.count('tools/list'), 1);
  void bench.set.apply(new Map([['a', { ...server, enabled: false }]]));
  await bench.clock.advance(60_000);
  assert.equal(await listing, null);
  assert.equal(script.links.length, 1);
});

test('check:G3 a change reported by another node during a first list causes one more look', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/list': () => SILENCE });
  await bench.run([serverOf('a'), script]);
  const client = clientOf('one');
  const listing = bench.set.catalog('a', client, 60_000);
  await settled();
  script.handlers['tools/list'] = () => ({ tools: [scriptedTool('new')] });
  void bench.set.relist('a');
  await bench.clock.advance(0);
  script.last.respond(script.last.lastOf('tools/list').id as number, { tools: [scriptedTool('old')] });
  await listing;
  await settled();
  assert.deepEqual(names(bench.set.knownCatalog('a', client)), ['new']);
});

test('check:G3 a list that a client requests anew is read over its own connection, after the current listing', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statefulServer());
  script.handlers['tools/list'] = (_params, link) => ({ tools: [scriptedTool(`of-${link.number}`)] });
  await bench.run([httpServerOf('a'), script]);
  const [one, two] = [clientOf('one'), clientOf('two')];
  for (const client of [one, two]) answerText(await bench.call('a', toolCall(client)));
  await bench.set.catalog('a', one, 1_000);
  assert.deepEqual(names(bench.set.knownCatalog('a', two)), ['of-1']);
  await bench.set.relistFor('a', two);
  assert.deepEqual(names(bench.set.knownCatalog('a', two)), ['of-2']);
  await Promise.all(['a', 'a', 'a', 'nobody'].map((server) => bench.set.relistFor(server, one)));
  assert.deepEqual(names(bench.set.knownCatalog('a', one)), ['of-1']);
  assert.deepEqual(
    script.links.map((link) => link.count('tools/list')),
    // The concurrent requests after the first share one listing.
    [3, 1],
  );
});

test('a list requested anew leaves no connection if its session ends meanwhile', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statefulServer());
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('other'))));
  await settled();
  const handshake = script.handlers['initialize']!;
  script.handlers['initialize'] = () => SILENCE;
  const kind = '{"roots":{}}';
  void bench.set.catalog('a', clientOf(null, kind, { revision: '2025-11-25' }), 0);
  await settled();
  const warm = script.last;
  assert.equal(warm.count('initialize'), 1);
  // The connection opened to list the server would soon become the session’s own.
  const listed = bench.set.relistFor('a', clientOf('s', kind));
  await settled();
  bench.set.releaseSession('s');
  const { id = 0 } = warm.lastOf('initialize');
  warm.respond(Number(id), handshake({}, warm, Number(id)));
  await listed;
  await settled();
  assert.deepEqual([warm.state, script.live.length], ['closed', 1]);
});

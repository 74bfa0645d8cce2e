import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  type Handler,
  Refusal,
  ScriptedServer,
  SILENCE,
  scriptedTool,
  statefulScript,
  statefulServer,
  statelessServer,
} from '../../../test/support/scripted-server.ts';
import { tool } from '../../../test/support/server-catalogs.ts';
import {
  answerText,
  clientOf,
  httpServerOf,
  Remembered,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';

const client = clientOf('s');
const names = (catalog: { lists: { tools: { items: readonly { key: string }[] } } } | null) =>
  catalog?.lists.tools.items.map((item) => item.key);

test('S2.11 check:D3 the gateway reads all pages of all lists that the server declares, byte for byte', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({
    ...statefulServer(),
    initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {}, prompts: {}, resources: {} } }),
    'tools/list': ({ cursor }) =>
      cursor === undefined
        ? { tools: [scriptedTool('a'), scriptedTool('b')], nextCursor: '' }
        : { tools: [scriptedTool('c')] },
    'prompts/list': () => ({ prompts: [{ name: 'p' }] }),
    'resources/list': () => ({ resources: [{ uri: 'x://1', name: 'one' }] }),
    'resources/templates/list': () => new Refusal(-32601, 'none'),
  });
  await bench.run([serverOf('a'), script]);
  const catalog = (await bench.set.catalog('a', client, 1000))!;
  assert.deepEqual(names(catalog), ['a', 'b', 'c']);
  assert.equal(catalog.lists.tools.pages.length, 2);
  assert.equal(catalog.lists.tools.pages[0]!.toString(), `{"tools":[${tool('a')},${tool('b')}],"nextCursor":""}`);
  assert.equal(catalog.lists.tools.items[1]!.bytes.toString(), tool('b'));
  assert.equal(catalog.lists.prompts.items[0]!.key, 'p');
  assert.equal(catalog.lists.resources.items[0]!.key, 'x://1');
  assert.equal(catalog.lists.resourceTemplates.items.length, 0);
});

test('S2.11 the gateway does not request lists that the server does not declare', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  assert.equal(script.last.count('prompts/list') + script.last.count('resources/list'), 0);
});

test('S2.11 a server that declares no list is asked for its tools; they are offered, and the log reports it', async () => {
  const bench = new UpstreamBench();
  const undeclared = (list: Handler) =>
    new ScriptedServer({
      ...statefulServer(),
      initialize: () => ({ protocolVersion: '2025-06-18', capabilities: {} }),
      'tools/list': list,
    });
  const forgetful = undeclared(() => ({ tools: [scriptedTool('a')] }));
  const refusing = undeclared(() => new Refusal(-32603, 'what?'));
  const silent = undeclared(() => SILENCE);
  await bench.run([serverOf('forgetful'), forgetful], [serverOf('refusing'), refusing], [serverOf('silent'), silent]);
  assert.deepEqual(names(await bench.set.catalog('forgetful', client, 1000)), ['a']);
  assert.equal(forgetful.last.count('prompts/list') + forgetful.last.count('resources/list'), 0);
  assert.match(bench.logged.join('\n'), /list_odd.*lists tools that it does not declare/);
  const before = bench.logged.length;
  assert.deepEqual(names(await bench.set.catalog('refusing', client, 1000)), []);
  const waiting = bench.set.catalog('silent', client, 60_000);
  await settled();
  await bench.clock.advance(5_000);
  assert.deepEqual(names(await waiting), []);
  assert.equal(silent.last.count('tools/list'), 1);
  assert.doesNotMatch(bench.logged.slice(before).join('\n'), /list_/);
});

test('S2.11 cursors in a circle end the listing, and so does the hundredth page', async () => {
  const bench = new UpstreamBench();
  const circle = new ScriptedServer({
    ...statefulServer(),
    'tools/list': () => ({ tools: [scriptedTool('t')], nextCursor: 'same' }),
  });
  let page = 0;
  const endless = new ScriptedServer({
    ...statefulServer(),
    'tools/list': () => ({ tools: [], nextCursor: `${page++}` }),
  });
  await bench.run([serverOf('circle'), circle], [serverOf('endless'), endless]);
  assert.equal((await bench.set.catalog('circle', client, 1000))?.lists.tools.items.length, 2);
  await bench.set.catalog('endless', client, 1000);
  assert.equal(endless.last.count('tools/list'), 100);
});

test('S2.11 a list ends after 20,000 items or 64 MiB, and the gateway reports it', async () => {
  const bench = new UpstreamBench();
  let page = 0;
  const long = new ScriptedServer({
    ...statefulServer(),
    'tools/list': () => ({
      tools: Array.from({ length: 15_000 }, (_, i) => scriptedTool(`t${page}_${i}`)),
      nextCursor: `${page++}`,
    }),
  });
  const wide = new ScriptedServer({
    ...statefulServer(),
    'tools/list': () => ({
      tools: [{ ...scriptedTool(`t${page}`), description: 'x'.repeat(9_000_000) }],
      nextCursor: `${page++}`,
    }),
  });
  await bench.run([serverOf('long'), long], [serverOf('wide'), wide]);
  assert.equal((await bench.set.catalog('long', client, 1000))?.lists.tools.items.length, 20_000);
  assert.equal(long.last.count('tools/list'), 2);
  assert.equal((await bench.set.catalog('wide', client, 1000))?.lists.tools.items.length, 8);
  assert.match(bench.logged.join('\n'), /a page has more than 20000 items[\s\S]*stopped after 8 items in 72/);
});

test('proto:C3 cache hints: the least of the pages, private unless all are public, 0 where there is none', async () => {
  const bench = new UpstreamBench();
  const pages: Record<string, object> = {
    first: { resultType: 'complete', tools: [], ttlMs: 9000, cacheScope: 'public', nextCursor: 'second' },
    second: { resultType: 'complete', tools: [], ttlMs: 4000, cacheScope: 'public' },
  };
  const script = new ScriptedServer({
    ...statelessServer(),
    'tools/list': ({ cursor }) => pages[(cursor as string) ?? 'first'],
  });
  await bench.run([httpServerOf('a'), script], [serverOf('b'), statefulScript()]);
  const listed = (await bench.set.catalog('a', clientOf(null), 1000))!.lists.tools;
  assert.deepEqual([listed.ttlMs, listed.cacheScope], [4000, 'public']);
  const hintless = (await bench.set.catalog('b', client, 1000))!.lists.tools;
  assert.deepEqual([hintless.ttlMs, hintless.cacheScope], [0, 'private']);
});

test('catalogues are kept per kind of client; a look-up of a known one starts no process', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.handlers['initialize'] = (params) => {
    const sampling = 'sampling' in (params['capabilities'] as object);
    return {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: sampling ? 'rich' : 'poor' },
    };
  };
  script.handlers['tools/list'] = (_params, link) => {
    const rich = 'sampling' in (link.lastOf('initialize').params!['capabilities'] as object);
    return { tools: rich ? [scriptedTool('ask'), scriptedTool('echo')] : [scriptedTool('echo')] };
  };
  await bench.run([serverOf('a'), script]);
  assert.equal(bench.set.knownCatalog('a', client), null);
  assert.equal(script.links.length, 0);
  const rich = clientOf('r', '{"sampling":{}}');
  assert.deepEqual(names(await bench.set.catalog('a', client, 1000)), ['echo']);
  assert.deepEqual(names(await bench.set.catalog('a', rich, 1000)), ['ask', 'echo']);
  assert.deepEqual(names(bench.set.knownCatalog('a', client)), ['echo']);
  assert.deepEqual(
    bench.events.changed.map(({ fingerprint }) => fingerprint),
    [client.fingerprint, rich.fingerprint],
  );
});

test('on a shared stateful server all clients see what a client without capabilities sees', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { isolation: 'shared' }), script]);
  const rich = clientOf('r', '{"sampling":{}}');
  assert.deepEqual(names(await bench.set.catalog('a', rich, 1000)), ['echo']);
  assert.deepEqual(names(bench.set.knownCatalog('a', client)), ['echo']);
  assert.equal(script.links.length, 1);
});

test('a client waits for a first list for a limited time; the listing goes on, and its end is reported', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/list': () => SILENCE });
  await bench.run([serverOf('a'), script]);
  const waiting = bench.set.catalog('a', client, 2000);
  await settled();
  await bench.clock.advance(2000);
  assert.equal(await waiting, null);
  script.last.respond(script.last.lastOf('tools/list').id as number, { tools: [scriptedTool('late')] });
  await settled();
  assert.deepEqual(names(bench.set.knownCatalog('a', client)), ['late']);
  assert.deepEqual(bench.events.changed, [
    { server: 'a', fingerprint: client.fingerprint, lists: ['tools'], key: null },
  ]);
  const { startedInMs } = bench.set.status('a')!;
  assert.equal(startedInMs, 2000);
});

test('the gateway does not request a failed list again for 5 s', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  let lists = 0;
  script.handlers['tools/list'] = (_params, link, id) => {
    lists++;
    link.lose(id, 'UNKNOWN');
    return SILENCE;
  };
  await bench.run([serverOf('a'), script]);
  for (let i = 0; i < 5; i++) assert.equal(await bench.set.catalog('a', client, 1000), null);
  assert.equal(lists, 1);
  script.handlers['tools/list'] = statefulServer()['tools/list']!;
  await bench.clock.advance(5000);
  assert.deepEqual(names(await bench.set.catalog('a', client, 1000)), ['echo']);
});

test('check:F7 the gateway does not request a failed list again for 5 s, for any client and after any notification', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const list = script.handlers['tools/list']!;
  await bench.run([serverOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  answerText(await bench.call('a', toolCall(client)));
  script.handlers['tools/list'] = () => new Refusal(-32603, 'not now');
  const asked = () => script.links.reduce((sum, link) => sum + link.count('tools/list'), 0);
  const changed = async () => {
    script.links[0]!.deliver({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
    await bench.clock.advance(1000);
  };
  await changed();
  const failed = asked();
  for (let i = 0; i < 3; i++) {
    await changed();
    await bench.set.catalog('a', client, 0);
    // Another session opens a connection of its own.
    answerText(await bench.call('a', toolCall(clientOf(`other ${i}`))));
  }
  assert.equal(asked(), failed);
  script.handlers['tools/list'] = (params, link, id) => ({
    ...(list(params, link, id) as object),
    tools: [scriptedTool('new')],
  });
  await bench.clock.advance(2_000);
  assert.equal(asked(), failed + 5, 'the gateway then asks each process and a fresh one');
  assert.deepEqual(names(bench.set.knownCatalog('a', client)), ['new']);
});

test('the gateway retries a failed list by itself at growing intervals, and reports when it succeeds', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const list = script.handlers['tools/list']!;
  script.handlers['tools/list'] = (_params, link, id) => {
    link.lose(id, 'UNKNOWN');
    return SILENCE;
  };
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  await settled();
  const asked = () => script.last.count('tools/list');

  assert.equal(asked(), 1);
  await bench.clock.advance(4_999);
  assert.equal(asked(), 1);
  await bench.clock.advance(1);
  assert.equal(asked(), 2);
  await bench.clock.advance(9_999);
  assert.equal(asked(), 2);
  script.handlers['tools/list'] = list;
  await bench.clock.advance(1);
  assert.equal(asked(), 3);
  assert.equal(names(bench.set.knownCatalog('a', client))?.length, 1);
  await bench.clock.advance(600_000);
  assert.equal(asked(), 3);
  await bench.set.close('shutdown');
});

test('S2.11 a list that the server refuses later keeps its known items', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  script.handlers['tools/list'] = () => new Refusal(-32603, 'not now');
  script.last.deliver({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
  await bench.clock.advance(100);
  assert.equal(script.last.count('tools/list'), 2);
  assert.deepEqual(names(bench.set.knownCatalog('a', client)), ['echo']);
});

test('fault:F12 50 000 list_changed notifications lead to at most 3 lists, and the change is reported', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(client)));
  await settled();
  const before = script.last.count('tools/list');
  script.handlers['tools/list'] = () => ({ tools: [scriptedTool('new')] });
  for (let i = 0; i < 50; i++) {
    for (let j = 0; j < 1000; j++) script.last.deliver({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
    await bench.clock.advance(20);
  }
  await bench.clock.advance(5000);
  assert.ok(script.last.count('tools/list') - before <= 3);
  assert.deepEqual(names(bench.set.knownCatalog('a', client)), ['new']);
  assert.deepEqual(bench.events.changed.at(-1)?.lists, ['tools']);
  // The session that owns the connection gets at most as many notifications.
  assert.ok(bench.events.notifications.length <= 3 && bench.events.notifications.length >= 1);
});

test('known lists survive a restart: served at once, refreshed in the background, differences reported', async () => {
  const remembered = new Remembered();
  const rich = clientOf('r', '{"sampling": {}}');
  const first = new UpstreamBench({ remembered });
  await first.run([serverOf('a'), statefulScript()]);
  await first.set.catalog('a', rich, 1000);
  await first.set.close('shutdown');

  const script = new ScriptedServer(
    statefulServer([{ name: 'echo', inputSchema: { type: 'object' } }, scriptedTool('more')]),
  );
  const second = new UpstreamBench({ remembered });
  await second.run([serverOf('a', { start: 'lazy' }), script]);
  assert.deepEqual(names(second.set.knownCatalog('a', rich)), ['echo']);
  assert.equal(second.set.status('a')?.catalogFromStore, true);
  assert.equal(script.links.length, 0);
  assert.deepEqual(names(await second.set.catalog('a', rich, 0)), ['echo']);
  await settled();
  assert.deepEqual(names(second.set.knownCatalog('a', rich)), ['echo', 'more']);
  assert.equal(second.set.status('a')?.catalogFromStore, false);
  assert.deepEqual(
    second.events.changed.map(({ lists }) => lists),
    [['tools']],
  );

  const third = new UpstreamBench({ remembered });
  const eager = statefulScript();
  await third.run([serverOf('a', { start: 'eager' }), eager]);
  assert.deepEqual(eager.last.lastOf('initialize').params?.['capabilities'], { sampling: {} });

  const changed = new UpstreamBench({ remembered });
  await changed.run([serverOf('a', { connectionDigest: 'another' }), statefulScript()]);
  assert.equal(changed.set.knownCatalog('a', rich), null);
});

test('check:D3 concurrent kinds of client all get their lists', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  const kinds = ['{}', '{"roots":{}}', '{"sampling":{}}', '{"elicitation":{}}'].map((kind) => clientOf(null, kind));
  const catalogs = await Promise.all(kinds.map((kind) => bench.set.catalog('a', kind, 1000)));
  assert.deepEqual(catalogs.map(names), Array(4).fill(['echo']));
});

test('the log names tools that the aggregate does not offer, with the reason; `/` is no such reason', async () => {
  const bench = new UpstreamBench();
  const names = ['a/b', 'a b', 'x'.repeat(129)];
  await bench.run([serverOf('a'), new ScriptedServer(statefulServer(names.map(scriptedTool)))]);
  const catalog = await bench.set.catalog('a', client, 1000);
  assert.equal(catalog?.lists.tools.items.length, 3);
  const odd = bench.logged.filter((line) => line.includes('list_odd'));
  assert.equal(odd.length, 2);
  assert.match(odd[0]!, /the tool \\"a b\\" is not offered: the name has characters outside A-Z a-z 0-9 _ - \. \//);
  assert.match(odd[1]!, /is not offered: the name is longer than 128 characters/);
});

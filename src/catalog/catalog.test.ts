import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Advertisement, serverCatalog, tool } from '../../test/support/server-catalogs.ts';
import type { Era, Message } from '../model/message.ts';
import { LIST_KINDS, type ListKind } from '../model/server-catalog.ts';
import { aggregateCapabilities, aggregateInstructions } from './aggregate-handshake.ts';
import { Catalog, listDiffers } from './catalog.ts';
import type { ListPolicy } from './catalog-member.ts';
import { CursorCodec } from './cursor.ts';

const cursors = new CursorCodec([Buffer.alloc(32, 7)]);
const NOW = 1_000_000;

function merged(
  advertised: Record<string, Advertisement | null>,
  more: { unfiltered?: boolean; lists?: ListPolicy } = {},
): Catalog {
  const members = Object.entries(advertised).map(([server, advertisement]) => ({
    server,
    lists: more.lists ?? null,
    catalog: advertisement === null ? null : serverCatalog(server, advertisement),
  }));
  return new Catalog(members, {
    callerGroup: 'a',
    unfiltered: more.unfiltered ?? true,
    bridged: advertised['mcp'] === undefined,
    cursors,
    serverInfo: '{"name":"trunkline"}',
  });
}

function body(catalog: Catalog, kind: ListKind, era: Era = 'stateful', page = 0, wall = NOW): string {
  return text(catalog.page(kind, era, page, wall)!);
}

function text(message: Message): string {
  return message.body.toString();
}

test('S2.17 S2.30 check:D3 tools are in the servers’ order and each server’s own, with only the name changed', () => {
  const catalog = merged({
    alpha: {
      tools: [
        '{"title":"Zed","name":"z","big":12345678901234567890,"d":1.0,"description":"[x] \\u00e9","_meta":{"k":-0}}',
        '{ "description" : "name\\"" , "inputSchema":{"properties":{"name":{"default":"name"}}}, "name" : "a" }',
      ],
    },
    beta: { tools: [tool('a')] },
  });
  assert.equal(
    body(catalog, 'tools'),
    '{"tools":[' +
      '{"title":"Zed","name":"alpha__z","big":12345678901234567890,"d":1.0,"description":"[x] \\u00e9","_meta":{"k":-0}},' +
      '{ "description" : "name\\"" , "inputSchema":{"properties":{"name":{"default":"name"}}}, "name" : "alpha__a" },' +
      '{"name":"beta__a","inputSchema":{"type":"object"}}]}',
  );
});

test('check:D5 prompts are renamed; resources and templates keep their bytes where their URI is unique', () => {
  const catalog = merged({
    a: {
      prompts: ['{"name":"Say it!","arguments":[]}'],
      resources: ['{"uri":"file:///x","name":"x"}', '{"uri":"config://app","name":"mine"}'],
      resourceTemplates: ['{"uriTemplate":"file:///{path}","name":"t"}'],
    },
    b: {
      resources: ['{"uri":"config://app","name":"other"}'],
      resourceTemplates: ['{"uriTemplate":"db://{t}","name":"t"}'],
    },
  });
  assert.equal(body(catalog, 'prompts'), '{"prompts":[{"name":"a__Say_it_","arguments":[]}]}');
  assert.equal(
    body(catalog, 'resources'),
    '{"resources":[{"uri":"file:///x","name":"x"},{"uri":"trunkline://a/config://app","name":"mine"},' +
      '{"uri":"trunkline://b/config://app","name":"other"}]}',
  );
  assert.deepEqual(pick(catalog.resource('trunkline://b/config://app')), { server: 'b', uri: 'config://app' });
  assert.deepEqual(pick(catalog.resource('file:///x')), { server: 'a', uri: 'file:///x' });
  assert.deepEqual(pick(catalog.resource('db://users')), { server: 'b', uri: 'db://users' });
  assert.deepEqual(pick(catalog.resource('trunkline://a/db://users')), { server: 'a', uri: 'db://users' });
  assert.equal(catalog.resource('config://app'), null);
  assert.deepEqual(catalog.choices('resources', 'config://app'), [
    'trunkline://a/config://app',
    'trunkline://b/config://app',
  ]);
  assert.equal(catalog.exposedUri('b', 'config://app'), 'trunkline://b/config://app');
  assert.equal(catalog.exposedUri('a', 'file:///x'), 'file:///x');
  assert.deepEqual(pick(catalog.resourceReference('db://{t}')), { server: 'b', uri: 'db://{t}' });
});

test('S2.3 S4.13 check:D1 a tool is found by its exposed name, its whole name, behind mcp__, and bare where unambiguous', () => {
  const catalog = merged({
    a: { tools: [tool('read'), tool('only'), tool('has.dot')] },
    b: { tools: [tool('read')] },
  });
  const leads = (name: string) => {
    const target = catalog.tool(name);
    return target === null ? null : `${target.server}:${target.item.key}`;
  };
  assert.equal(leads('a__read'), 'a:read');
  assert.equal(leads('mcp__b__read'), 'b:read');
  assert.equal(leads('a__has_dot'), 'a:has.dot');
  assert.equal(leads('a__has.dot'), 'a:has.dot');
  assert.equal(leads('only'), 'a:only');
  assert.equal(leads('read'), null);
  assert.deepEqual(catalog.choices('tools', 'read'), ['a__read', 'b__read']);
  assert.equal(leads('b__only'), null);
});

test('S2.3 S2.4 check:D1 a name with the separator leads to the server that it names, or is unknown', () => {
  const catalog = merged({
    evil: {
      tools: [tool('victim__pay'), tool('mcp__victim__pay'), tool('gone__x')],
      prompts: ['{"name":"victim__p"}'],
    },
    victim: null,
    mcp: null,
  });
  for (const name of ['victim__pay', 'mcp__victim__pay', 'gone__x', 'mcp__gone__x', 'mcp__evil__gone__x']) {
    assert.equal(catalog.tool(name), null, name);
    assert.deepEqual(catalog.choices('tools', name), [], name);
  }
  assert.equal(catalog.prompt('victim__p'), null);
  assert.equal(catalog.tool('evil__victim__pay')?.item.key, 'victim__pay');
});

test('check:D1 a server whose name has to be mapped never has the names of another', () => {
  const catalog = merged({ 'my.server': { tools: [tool('pay')] }, 'my-server': null, my_server: null });
  for (const name of ['my-server__pay', 'my_server__pay']) assert.equal(catalog.tool(name), null, name);
  const [offered] = catalog.items('tools');
  assert.match(offered!.exposed, /^my-server-[0-9a-f]{4}__pay$/);
  for (const name of [offered!.exposed, 'my.server__pay', 'pay']) assert.equal(catalog.tool(name)?.server, 'my.server');
});

test('check:D1 a URI of the gateway’s own scheme leads to the server that it names, or is unknown', () => {
  const catalog = merged({
    evil: {
      resources: ['{"uri":"trunkline://victim/secret","name":"s"}'],
      resourceTemplates: ['{"uriTemplate":"trunkline://gone/{+x}","name":"t"}', '{"uriTemplate":"{+x}","name":"u"}'],
    },
    victim: { resources: [] },
  });
  assert.deepEqual(pick(catalog.resource('trunkline://victim/secret')), { server: 'victim', uri: 'secret' });
  for (const uri of ['trunkline://gone/x', 'trunkline://gone', 'trunkline:///x']) {
    assert.equal(catalog.resource(uri), null, uri);
    assert.equal(catalog.resourceReference(uri), null, uri);
  }
  assert.equal(catalog.resourceReference('trunkline://gone/{+x}'), null);
  const own = 'trunkline://evil/trunkline://victim/secret';
  assert.equal(catalog.items('resources')[0]!.exposed, own);
  assert.deepEqual(pick(catalog.resource(own)), { server: 'evil', uri: 'trunkline://victim/secret' });
  assert.equal(catalog.exposedUri('evil', 'trunkline://victim/other'), 'trunkline://evil/trunkline://victim/other');
});

test('tools that the operator filters, or whose name no client accepts, are not listed', () => {
  const advertised = { a: { tools: [tool('keep'), tool('drop'), tool('bad name')] } };
  const catalog = merged(advertised, { lists: (_kind, name) => name !== 'drop' });
  assert.equal(catalog.tool('a__drop'), null);
  assert.equal(catalog.tool('bad name'), null);
  assert.deepEqual(
    catalog.items('tools').map(({ exposed }) => exposed),
    ['a__keep'],
  );
  assert.deepEqual(catalog.notices, [
    { server: 'a', name: 'bad name', exposed: null, reason: 'the name has characters outside A-Z a-z 0-9 _ - . /' },
  ]);
  const included = merged(advertised, { lists: (_kind, name) => name === 'drop' });
  assert.deepEqual(
    included.items('tools').map(({ exposed }) => exposed),
    ['a__drop'],
  );
});

test('S2.19 check:D3 proto:C4 long lists come in pages that join to the whole, with one scope', () => {
  const names = Array.from({ length: 600 }, (_, i) => `t${i}`);
  const catalog = merged({ s: { era: 'stateless', cacheScope: 'public', tools: names.map((name) => tool(name)) } });
  const seen: string[] = [];
  let page = 0;
  for (;;) {
    const result = JSON.parse(body(catalog, 'tools', 'stateless', page));
    seen.push(...result.tools.map(({ name }: { name: string }) => name));
    assert.equal(result.cacheScope, 'public');
    if (result.nextCursor === undefined) break;
    const content = cursors.read(result.nextCursor)!;
    assert.deepEqual(content, { version: catalog.version, kind: 'tools', page: page + 1 });
    page = content.page;
  }
  assert.equal(page, 2);
  assert.deepEqual(
    seen,
    names.map((name) => `s__${name}`),
  );
  assert.equal(catalog.page('tools', 'stateless', 3, NOW), null);
});

test('pages are cut by size too, and an item that is too large has a page of its own', () => {
  const large = tool('l', `,"description":"${'x'.repeat(1_100_000)}"`);
  const catalog = merged({ s: { tools: [tool('a'), large, tool('b')] } });
  assert.equal(JSON.parse(body(catalog, 'tools')).tools.length, 1);
  assert.equal(JSON.parse(body(catalog, 'tools', 'stateful', 1)).tools.length, 1);
  assert.equal(JSON.parse(body(catalog, 'tools', 'stateful', 2)).tools[0].name, 's__b');
});

test('a page is written once and shared', () => {
  const catalog = merged({ s: { tools: [tool('a')] } });
  assert.equal(catalog.page('tools', 'stateful', 0, NOW), catalog.page('tools', 'stateful', 0, NOW + 5_000));
});

test('proto:C9 stateless lists have the shortest remaining time, and are private unless all are public', () => {
  const advertised = {
    a: { era: 'stateless', tools: [tool('x')], ttlMs: 60_000, cacheScope: 'public', listedAt: NOW } as const,
    b: { era: 'stateless', tools: [tool('y')], ttlMs: 90_000, cacheScope: 'public', listedAt: NOW - 50_000 } as const,
    c: { prompts: ['{"name":"p"}'] },
  };
  const page = (catalog: Catalog, kind: ListKind, wall = NOW) => {
    const { ttlMs, cacheScope, resultType, _meta } = JSON.parse(body(catalog, kind, 'stateless', 0, wall));
    assert.equal(resultType, 'complete');
    assert.deepEqual(_meta, { 'io.modelcontextprotocol/serverInfo': { name: 'trunkline' } });
    return [ttlMs, cacheScope];
  };
  assert.deepEqual(page(merged(advertised), 'tools'), [40_000, 'public']);
  assert.deepEqual(page(merged(advertised), 'tools', NOW + 39_500), [0, 'public']);
  assert.deepEqual(page(merged(advertised), 'tools', NOW + 10_400), [29_000, 'public']);
  assert.deepEqual(page(merged(advertised), 'tools', NOW + 100_000), [0, 'public']);
  // A server without prompts does not affect their list; one without hints makes a list private, without a ttl.
  assert.deepEqual(page(merged(advertised), 'prompts'), [0, 'private']);
  assert.deepEqual(page(merged({ ...advertised, d: { tools: [] } }), 'tools'), [0, 'private']);
  assert.deepEqual(page(merged(advertised, { unfiltered: false }), 'tools'), [40_000, 'private']);
  assert.deepEqual(page(merged({ ...advertised, z: null }), 'tools'), [0, 'private']);
});

test('tools are listed in the format of the client’s era', () => {
  const catalog = merged({
    old: { tools: [tool('t', ',"execution":{"taskSupport":"optional"}')] },
    young: {
      era: 'stateless',
      tools: [
        tool('n', ',"outputSchema":{"type":"number"}'),
        '{"name":"void","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}',
      ],
    },
  });
  const stateless = JSON.parse(body(catalog, 'tools', 'stateless')).tools;
  assert.deepEqual(
    stateless.map(({ name }: { name: string }) => name),
    ['old__t', 'young__n'],
  );
  assert.equal(stateless[0].execution, undefined);
  assert.deepEqual(stateless[1].outputSchema, { type: 'number' });
  const stateful = JSON.parse(body(catalog, 'tools', 'stateful')).tools;
  assert.deepEqual(stateful[0].execution, { taskSupport: 'optional' });
  assert.equal(stateful[1].outputSchema.type, 'object');
  assert.equal(stateful.length, 3);
});

function changedKinds(before: Catalog, after: Catalog): readonly ListKind[] {
  return LIST_KINDS.filter((kind) => listDiffers(before, after, kind));
}

test('equal members give equal versions; only visible changes count as changed lists', () => {
  const before = merged({ a: { tools: [tool('x')], prompts: ['{"name":"p"}'] }, b: { tools: [tool('y')] } });
  assert.equal(
    before.version,
    merged({ a: { tools: [tool('x')], prompts: ['{"name":"p"}'] }, b: { tools: [tool('y')] } }).version,
  );
  const after = merged({ a: { tools: [tool('x')], prompts: ['{"name":"q"}'] }, b: { tools: [tool('y')] } });
  assert.notEqual(after.version, before.version);
  assert.deepEqual(changedKinds(before, after), ['prompts']);
  const hidden = { lists: (_kind: ListKind, name: string) => name === 'x' };
  assert.deepEqual(
    changedKinds(
      merged({ a: { tools: [tool('x')] } }, hidden),
      merged({ a: { tools: [tool('x'), tool('n')] } }, hidden),
    ),
    [],
  );
});

test('S2.6 the aggregate declares what its members have and what it provides itself', () => {
  const advertised: Record<string, Advertisement | null> = {
    a: { capabilities: { tools: {}, logging: {}, tasks: { list: {}, requests: {} } } },
    b: {
      era: 'stateless',
      capabilities: { resources: { subscribe: true }, extensions: { 'io.modelcontextprotocol/tasks': {}, other: {} } },
      instructions: ' Use wisely. ',
    },
  };
  assert.deepEqual(JSON.parse(aggregateCapabilities(merged(advertised), 'stateful')), {
    tools: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    logging: {},
    tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } },
    extensions: { other: {} },
    experimental: { other: {} },
  });
  assert.deepEqual(JSON.parse(aggregateCapabilities(merged(advertised), 'stateless')), {
    tools: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    logging: {},
    extensions: { 'io.modelcontextprotocol/tasks': {}, other: {} },
  });
  assert.equal(aggregateInstructions(merged(advertised)), '# b\n\nUse wisely.');
  assert.equal(aggregateInstructions(merged({ a: {} })), null);
  const unknown = JSON.parse(aggregateCapabilities(merged({ z: null }), 'stateful'));
  assert.deepEqual(Object.keys(unknown).sort(), ['completions', 'logging', 'prompts', 'resources', 'tools']);
});

test('S2.6 if several members declare one extension, the aggregate declares what any of them can do', () => {
  const skills = 'io.modelcontextprotocol/skills';
  const a = {
    capabilities: { extensions: { [skills]: {}, constructor: { x: 1 } }, experimental: { 'v/old': { n: 1 } } },
  };
  const b = { capabilities: { extensions: { [skills]: { directoryRead: true }, ui: { mimeTypes: ['a'] } } } };
  const c = { capabilities: { extensions: { [skills]: { directoryRead: false }, ui: { mimeTypes: ['b', 'a'] } } } };
  const { extensions, experimental } = JSON.parse(aggregateCapabilities(merged({ a, b, c }), 'stateless'));
  assert.deepEqual(extensions, {
    [skills]: { directoryRead: true },
    constructor: { x: 1 },
    ui: { mimeTypes: ['a', 'b'] },
  });
  assert.deepEqual(experimental, { 'v/old': { n: 1 } });
});

function pick(target: { readonly server: string; readonly uri: string } | null): object | null {
  return target === null ? null : { server: target.server, uri: target.uri };
}

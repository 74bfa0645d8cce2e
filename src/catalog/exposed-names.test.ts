import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  EXPOSED_NAME_AIM,
  EXPOSED_NAME_MAX,
  SERVER_NAME_PATTERN,
  TOOL_NAME_DELIMITER,
  toolNameFault,
} from '../model/names.ts';
import {
  bridgePrefixed,
  exposeNames,
  type NamedCapability,
  parsePrefixedTool,
  prefixTool,
  withoutBridgePrefix,
} from './exposed-names.ts';

// Strings of the default size are too short to be shortened, and random strings alone hardly ever collide.
const serverName = fc.oneof(
  fc.constantFrom('a-b', 'a_b', 'a.b'),
  fc
    .string({ unit: fc.constantFrom('a', 'b', 'B', '1', '-', '_', '.'), minLength: 1, maxLength: 64, size: 'max' })
    .filter((name) => SERVER_NAME_PATTERN.test(name)),
);
const toolName = fc.oneof(
  fc.constantFrom('x-y', 'x_y', 'x.y'),
  fc.string({ unit: fc.constantFrom('x', 'y', '-', '_', '.', '/'), minLength: 1, maxLength: 8 }),
  fc.string({ minLength: 1, maxLength: 128, size: 'max' }),
);
const items = fc.uniqueArray(fc.record({ server: serverName, name: toolName }), {
  selector: ({ server, name }) => `${server}\0${name}`,
  maxLength: 40,
});

function table(list: readonly NamedCapability[]): Map<string, string | null> {
  const { names } = exposeNames(list);
  return new Map(list.map(({ server, name }, i) => [`${server}\0${name}`, names[i]!]));
}

function fold(name: string): string {
  return name.replaceAll('-', '_');
}

test('S2.2 S2.3 check:D1 every exposed name fits clients, and no two can be confused', () => {
  fc.assert(
    fc.property(items, (list) => {
      const offered = exposeNames(list).names.filter((name) => name !== null);
      for (const name of offered) assert.match(name, /^[A-Za-z0-9_-]{1,48}$/);
      assert.equal(new Set(offered.map(fold)).size, offered.length);
    }),
  );
});

test('S2.30 names depend neither on order nor on time', () => {
  fc.assert(
    fc.property(items, fc.infiniteStream(fc.nat()), (list, keys) => {
      const shuffled = list
        .map((item) => ({ item, key: keys.next().value as number }))
        .sort((a, b) => a.key - b.key)
        .map(({ item }) => item);
      const before = table(list);
      for (const [identity, name] of table(shuffled)) assert.equal(name, before.get(identity));
    }),
  );
});

test('S2.3 an added server changes no name of others, unless the two would read the same', () => {
  fc.assert(
    fc.property(items, items, (list, added) => {
      const own = list.map(({ server, name }) => ({ server: `p${server}`.slice(0, 64), name }));
      const unique = own.filter(
        (item, i) => own.findIndex((o) => o.server === item.server && o.name === item.name) === i,
      );
      const others = added.map(({ server, name }) => ({ server: `q${server}`.slice(0, 64), name }));
      const before = table(unique);
      const after = table([...unique, ...others]);
      for (const [identity, name] of before) assert.equal(after.get(identity), name);
    }),
  );
});

test('W3.8 a tool whose name begins with its server’s name is prefixed, too', () => {
  const { names } = exposeNames([
    { server: 'git', name: 'log' },
    { server: 'git', name: 'git_log' },
    { server: 'git', name: 'git__log' },
  ]);
  assert.deepEqual(names, ['git__log', 'git__git_log', 'git__git__log']);
});

test('S2.2 long names are shortened with a hash, short ones never', () => {
  const long = {
    server: 'a-rather-long-server-name-of-some-vendor',
    name: 'create_or_update_something_quite_specific',
  };
  const { names, notices } = exposeNames([long, { server: 'files', name: 'read' }]);
  assert.equal(names[1], 'files__read');
  assert.equal(names[0]!.length, EXPOSED_NAME_AIM);
  assert.match(names[0]!, /^a-rather-long-s-[0-9a-f]{4}__create_or_updat/);
  assert.ok(EXPOSED_NAME_AIM < EXPOSED_NAME_MAX);
  assert.deepEqual(
    notices.map(({ name, exposed }) => ({ name, exposed })),
    [{ name: long.name, exposed: names[0] }],
  );
  assert.match(notices[0]!.reason, /longer than 48/);
});

test('names that differ only in - and _ get a hash; an exact one beside a mapped one keeps its name', () => {
  const { names, notices } = exposeNames([
    { server: 's', name: 'my-tool' },
    { server: 's', name: 'my_tool' },
    { server: 's', name: 'get_x' },
    { server: 's', name: 'get.x' },
  ]);
  assert.match(names[0]!, /^s__my-tool_[0-9a-f]{8}$/);
  assert.match(names[1]!, /^s__my_tool_[0-9a-f]{8}$/);
  assert.notEqual(names[0]!.slice(-8), names[1]!.slice(-8));
  assert.equal(names[2], 's__get_x');
  assert.match(names[3]!, /^s__get_x_[0-9a-f]{8}$/);
  assert.match(notices.find(({ name }) => name === 'my-tool')!.reason, /'s__my_tool'/);
});

test('a name that collides even with its hash is not listed, with the reason', () => {
  const [first] = exposeNames([
    { server: 's', name: 'a-b' },
    { server: 's', name: 'a_b' },
  ]).names;
  // The server has a tool with exactly the name that the hash produces.
  const squatter = first!.slice('s__'.length);
  const { names, notices } = exposeNames([
    { server: 's', name: 'a-b' },
    { server: 's', name: 'a_b' },
    { server: 's', name: squatter },
  ]);
  assert.equal(names[0], null);
  assert.equal(names[2], first);
  assert.match(notices.find(({ exposed }) => exposed === null)!.reason, /cannot be distinguished/);
});

test('a name listed twice by one server counts once', () => {
  const { names, notices } = exposeNames([
    { server: 's', name: 'x' },
    { server: 's', name: 'x' },
  ]);
  assert.deepEqual(names, ['s__x', null]);
  assert.match(notices[0]!.reason, /twice/);
});

test('S2.2 S2.3 check:D1 prefixes with two underscores and checks nothing', () => {
  assert.equal(TOOL_NAME_DELIMITER, '__');
  assert.equal(prefixTool('server', 'tool'), 'server__tool');
  assert.equal(prefixTool('', ''), '__');
  assert.equal(prefixTool('a__b', 'c d'), 'a__b__c d');
});

test('S2.4 check:D1 parses at the first delimiter, accepts empty parts, refuses names without one with the known message', () => {
  assert.deepEqual(parsePrefixedTool('a__b__c'), { server: 'a', tool: 'b__c' });
  assert.deepEqual(parsePrefixedTool('a___b'), { server: 'a', tool: '_b' });
  assert.deepEqual(parsePrefixedTool('__tool'), { server: '', tool: 'tool' });
  assert.deepEqual(parsePrefixedTool('server__'), { server: 'server', tool: '' });
  assert.throws(() => parsePrefixedTool('plain'), {
    message: 'invalid tool name format: plain (expected agent__tool)',
  });
});

test('the names of in-process bridges', () => {
  assert.equal(bridgePrefixed(prefixTool('memory', 'read')), 'mcp__memory__read');
  assert.equal(withoutBridgePrefix('mcp__memory__read'), 'memory__read');
  assert.equal(withoutBridgePrefix('memory__read'), null);
});

test('gives the reason why a name cannot be listed', () => {
  assert.equal(toolNameFault('ok.name/with-all_9'), null);
  assert.equal(toolNameFault('x'.repeat(128)), null);
  assert.match(toolNameFault('') ?? '', /empty/);
  assert.match(toolNameFault('x'.repeat(129)) ?? '', /128/);
  assert.match(toolNameFault('a b') ?? '', /characters/);
  assert.match(toolNameFault('a\n') ?? '', /characters/);
});

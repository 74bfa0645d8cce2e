import assert from 'node:assert/strict';
import { test } from 'node:test';
import { entryIn, NotEditable, namesIn, withEntry } from './edit-file.ts';

const YAML = { syntax: 'yaml', container: ['extensions'] } as const;
const LIST = { ...YAML, isList: true } as const;
const TOML = { syntax: 'toml', container: ['mcp_servers'] } as const;
const entry = { url: 'http://127.0.0.1:4270/mcp' };

test('a YAML file without keys keeps its comments, also without a line break at its end', () => {
  for (const layout of [YAML, LIST]) {
    for (const text of ['# mine', '# mine\n', '  ']) {
      const linked = withEntry(text, layout, 'trunkline', entry);
      assert.ok(linked.startsWith(`${text.trimEnd()}\n`) || text.trim() === '', linked);
      assert.deepEqual(entryIn(linked, layout, 'trunkline'), entry, linked);
    }
    assert.doesNotMatch(withEntry('', layout, 'trunkline', entry), /^\n/);
  }
});

test('comments and empty lines between two YAML entries stay when the first entry is removed or changed', () => {
  const between = '\n  # of the team, ends in May\n\n';
  for (const [layout, ours, next] of [
    [YAML, '  trunkline:\n    args:\n      - a\n    url: old # here\n', '  work:\n    url: u\n'],
    [LIST, '  - name: trunkline\n    args:\n      - a\n    url: old # here\n', '  - name: work\n    url: u\n'],
  ] as const) {
    const text = `extensions:\n${ours}${between}${next}`;
    assert.equal(withEntry(text, layout, 'trunkline', null), `extensions:\n${between}${next}`);
    const changed = ours.replace('    args:\n      - a\n', '').replace('old # here', entry.url);
    assert.equal(withEntry(text, layout, 'trunkline', entry), `extensions:\n${changed}${between}${next}`);
  }
});

test('a list of servers may have an item without a value', () => {
  const text = 'extensions:\n  -\n  - name: mine\n    url: u\n';
  assert.deepEqual([entryIn(text, LIST, 'mine'), entryIn(text, LIST, 'none')], [{ url: 'u' }, undefined]);
  assert.ok(namesIn(text, LIST).includes('mine'));
});

test('a line of a TOML value that looks like a table header does not end the table', () => {
  const own = [
    '[mcp_servers.trunkline]',
    'args = [',
    '["a"],',
    '  [ "b" ],',
    ']',
    'note = """',
    '[tui]',
    '"""',
    'x = 1',
  ];
  const others = 'about = """\n[mcp_servers.trunkline]\nx\n"""\n';
  const text = `${others}\n${own.join('\n')}\n\n# of the terminal\n[tui]\ntheme = "dark"\n`;
  const without = `${others}\n\n# of the terminal\n[tui]\ntheme = "dark"\n`;
  assert.equal(withEntry(text, TOML, 'trunkline', null), without);
  const changed = `${without}\n[mcp_servers.trunkline]\nurl = "${entry.url}"\n`;
  assert.equal(withEntry(text, TOML, 'trunkline', entry), changed);
});

test('a TOML file with both kinds of line ends keeps every other line as it is', () => {
  const text = 'a = 1\r\n[mcp_servers.trunkline]\nurl = "u"\n[tui]\ntheme = "dark"\r\n# end';
  assert.equal(withEntry(text, TOML, 'trunkline', null), 'a = 1\r\n[tui]\ntheme = "dark"\r\n# end');
  assert.throws(() => withEntry('mcp_servers = { trunkline = { url = "u" } }', TOML, 'trunkline', null), NotEditable);
});

test('a file that an edit would damage is refused: the client could not read it, or would read other servers', () => {
  const json = { syntax: 'json', container: ['mcpServers'] } as const;
  const toml = /^mcp_servers cannot be changed as it is written; write each .* of its own: \[mcp_servers\.<name>\]$/;
  const twice = /^a key is there twice, or another part refers to \w+\.trunkline; change it by hand$/;
  for (const [text, layout, value, words] of [
    ['mcp_servers = { a = { command = "x" } }\n', TOML, entry, toml],
    ['[[mcp_servers]]\ncommand = "x"\n', TOML, entry, toml],
    ['mcp_servers = "x"\n', TOML, entry, toml],
    ['mcp_servers.trunkline.url = "u"\n', TOML, entry, /of its own; write it as \[mcp_servers\.trunkline\]$/],
    ['{ "mcpServers": { "trunkline": {}, "trunkline": { "url": "u" } } }', json, entry, twice],
    ['{ "mcpServers": {}, "mcpServers": { "a": {} } }', json, entry, twice],
    ['extensions:\n  trunkline: &x { url: u }\n  a: *x\n', YAML, null, twice],
    ['extensions:\n  - &x { name: trunkline }\n  - { name: a, like: *x }\n', LIST, null, twice],
  ] as const) {
    assert.throws(
      () => withEntry(text, layout, 'trunkline', value),
      (error: Error) => error instanceof NotEditable && words.test(error.message),
      text,
    );
  }
});

test('TOML servers with dotted keys, or inline in their table, get another one', () => {
  for (const text of ['mcp_servers.a.command = "x"\n', '[mcp_servers]\na = { command = "x" }\nb.command = "y"\n']) {
    const linked = withEntry(text, TOML, 'trunkline', entry);
    assert.equal(linked, `${text}\n[mcp_servers.trunkline]\nurl = "${entry.url}"\n`);
    assert.equal(withEntry(linked, TOML, 'trunkline', null), text);
  }
});

test('an object that has only comments keeps them, and they stay when the entry is removed', () => {
  const json = { syntax: 'json', container: ['mcpServers'] } as const;
  for (const comment of ['// mine', '/* mine */']) {
    for (const text of [`{\n  ${comment}\n}\n`, `{\n  "mcpServers": {\n    ${comment}\n  }\n}\n`]) {
      const linked = withEntry(text, json, 'trunkline', entry);
      assert.ok(linked.includes(comment), linked);
      assert.deepEqual(entryIn(linked, json, 'trunkline'), entry, linked);
      assert.ok(withEntry(linked, json, 'trunkline', null).includes(comment));
    }
  }
  assert.equal(withEntry('{ "mcpServers": { } }', json, 'a', {}), '{ "mcpServers": {\n    "a": {}\n  } }');
});

test('a YAML key without a value gets the entry; one with a value of another kind is refused and stays', () => {
  for (const layout of [YAML, LIST]) {
    for (const text of ['extensions:\n', '# mine\nextensions: # none yet\nother: 1\n', 'extensions: null\n']) {
      const linked = withEntry(text, layout, 'trunkline', entry);
      assert.deepEqual(entryIn(linked, layout, 'trunkline'), entry, linked);
      assert.ok(!text.includes('other') || /# mine\n[\s\S]*other: 1/.test(linked), linked);
    }
    const expected = new RegExp(`extensions is no ${layout === LIST ? 'list' : 'map'}`);
    const other = layout === LIST ? '{ a: { url: u } }' : '[a, b]';
    for (const value of ['none', '5', other, '*some'])
      assert.throws(
        () => withEntry(`x: &some {}\nextensions: ${value}\n`, layout, 'trunkline', entry),
        (error: Error) => error instanceof NotEditable && expected.test(error.message),
        value,
      );
  }
});

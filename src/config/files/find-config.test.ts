import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { loadConfig } from '../load-config.ts';
import { findConfig } from './find-config.ts';

let home = '';
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'tl-find-'));
});
afterEach(() => rmSync(home, { recursive: true }));

function put(path: string): string {
  const file = join(home, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, '');
  return file;
}

test('the nearest file wins over a better name further up check:A10', () => {
  put('trunkline.yaml');
  const near = put('work/shop/.cursor/mcp.json');
  mkdirSync(join(home, 'work/shop/src/deep'), { recursive: true });
  assert.equal(findConfig(join(home, 'work/shop/src/deep'), home), near);
});

test('within a folder the order is trunkline.*, .mcp.json, VS Code, Cursor', () => {
  const names = [
    '.cursor/mcp.json',
    '.vscode/mcp.json',
    '.mcp.json',
    'trunkline.toml',
    'trunkline.jsonc',
    'trunkline.json',
    'trunkline.yml',
    'trunkline.yaml',
  ];
  for (const name of names) {
    const file = put(name);
    assert.equal(findConfig(home, home), file);
  }
});

test('the search ends at the repository root and at home', () => {
  put('.mcp.json');
  put('work/repo/.git/HEAD');
  mkdirSync(join(home, 'work/repo/src'), { recursive: true });
  assert.equal(findConfig(join(home, 'work/repo/src'), home), null);
  mkdirSync(join(home, 'me/src'), { recursive: true });
  assert.equal(findConfig(join(home, 'me/src'), join(home, 'me')), null);
  assert.equal(findConfig(join(home, 'me/src'), '/nowhere'), join(home, '.mcp.json'));
});

test('a folder with the name of a configuration file is not taken for one', () => {
  mkdirSync(join(home, 'trunkline.json'));
  assert.equal(findConfig(home, home), null);
});

test('check:A1 without a file, Claude Code’s own is used if it has servers for this folder', () => {
  const home = mkdtempSync(join(tmpdir(), 'tl-claude-'));
  try {
    const shop = join(home, 'code', 'shop');
    mkdirSync(join(shop, 'src'), { recursive: true });
    const projects = { [shop]: { mcpServers: { a: { command: 'x' } } }, [join(home, 'code')]: { mcpServers: {} } };
    writeFileSync(join(home, '.claude.json'), JSON.stringify({ projects }));
    assert.equal(findConfig(join(shop, 'src'), home), join(home, '.claude.json'));
    assert.equal(findConfig(join(home, 'code'), home), null);
    writeFileSync(join(shop, '.mcp.json'), '{}');
    assert.equal(findConfig(shop, home), join(shop, '.mcp.json'));
  } finally {
    rmSync(home, { recursive: true });
  }
});

test('Claude Code’s own file is found where it gives servers: through a link too, and for the nearest project only', async () => {
  const shop = join(home, 'code', 'shop');
  mkdirSync(join(shop, 'empty', 'deep'), { recursive: true });
  symlinkSync(shop, join(home, 'link'));
  const mcpServers = { a: { command: 'x' } };
  const file = put('.claude.json');
  writeFileSync(
    file,
    JSON.stringify({
      projects: { [`${realpathSync(shop)}/`]: { mcpServers }, [join(realpathSync(shop), 'empty')]: {} },
    }),
  );
  for (const [cwd, servers] of [
    [join(home, 'link'), ['a']],
    [shop, ['a']],
    [join(shop, 'empty/deep'), []],
    [`${shop}-other`, []],
  ] as const) {
    const result = await loadConfig({ files: [file], cwd, env: {} });
    assert.deepEqual(result.ok ? [...result.state.servers.keys()] : [], servers, cwd);
    assert.equal(findConfig(cwd, home), servers.length > 0 ? file : null, cwd);
  }
});

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { RUN_TIME } from '../model/server.ts';
import { loadConfig } from './load-config.ts';
import { loadDefinition } from './load-definition.ts';

const read = (text: string, name: string | null = null, env: Record<string, string> = {}) =>
  loadDefinition({ text, name, folder: '/srv', env });

async function codes(text: string, name: string | null = null): Promise<readonly string[]> {
  const result = await read(text, name);
  return result.ok ? [] : result.problems.map(({ code }) => code);
}

const BAD: readonly string[] = [
  '{ "command": "x", "comand": "y" }',
  '{ "command": 7 }',
  '{ "command": "" }',
  '{ "url": "ftp://x/" }',
  '{ "url": "http://u:p@x/" }',
  '{ "url": "http://x/", "timeoutMs": -1 }',
  '{ "url": "http://x/", "timeoutMs": "1" }',
  '{ "url": "http://x/", "isolation": "none" }',
  '{ "url": "http://x/", "headers": { "a b": "c" } }',
  '{ "url": "http://x/", "headers": { "a": "${NOT_SET}" } }',
  '{ "url": "http://x/", "retry": "hints" }',
  '{ "command": "x", "ssh": "-oProxyCommand=touch" }',
  '{ "docker": { "image": "-v/:/host" } }',
  '{ "docker": { "image": "a", "container": "b" } }',
  '{ "command": "x", "env": { "A=B": "c" } }',
  '{ "command": "x", "url": "http://x/", "type": "docker" }',
  '{ "timeoutMs": 5 }',
];

test('problems of a definition are reported like those of a file: the same codes, messages and fixes, at their own positions', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tl-definition-'));
  try {
    const file = join(folder, 'trunkline.json');
    for (const text of BAD) {
      const spread = text.replaceAll(/([{,]) /g, '$1\n  ');
      writeFileSync(file, `{ "mcpServers": { "one":\n${spread}\n} }`);
      const fromFile = await loadConfig({ files: [file], cwd: folder, env: {}, strict: true });
      const own = await loadDefinition({ text: spread, name: 'one', folder, env: {} });
      assert.ok(!fromFile.ok && !own.ok, text);
      const shifted = (problems: typeof own.problems, above: number) =>
        problems.map(({ code, line, message, fix }) => [
          code,
          line === 1 + above && above === 0 ? 1 : line - above,
          message.replaceAll('mcpServers.one', 'one'),
          fix,
        ]);
      // A problem at the name of the server has the position of the definition if there is no name.
      const flat = (list: ReturnType<typeof shifted>) =>
        list.map(([code, line, ...rest]) => [code, Math.max(1, line as number), ...rest]);
      assert.deepEqual(flat(shifted(own.problems, 0)), flat(shifted(fromFile.problems, 1)), text);
      for (const problem of own.problems) assert.equal(problem.file, RUN_TIME);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the name is in the definition or beside it, and must be one that files may use', async () => {
  const named = await read('{ "name": "one", "url": "http://x/" }');
  assert.ok(named.ok && named.server.name === 'one');
  assert.deepEqual(await codes('{ "url": "http://x/" }'), ['TL1304']);
  assert.deepEqual(await codes('{ "name": 5, "url": "http://x/" }'), ['TL1302']);
  assert.deepEqual(await codes('{ "name": "two", "url": "http://x/" }', 'one'), ['TL1306']);
  const names = [
    '',
    ' ',
    'a b',
    'a__b',
    '../x',
    '_a',
    '-a',
    'a/b',
    'a\u0000',
    'ü',
    'a'.repeat(65),
    '.',
    '..',
    '%2e',
    'a\n',
    '__proto__',
    '<b>',
    '*',
    '>',
  ];
  for (const name of names) {
    const text = JSON.stringify({ name, url: 'http://x/' });
    assert.deepEqual(await codes(text), ['TL1402'], JSON.stringify(name));
  }
});

test('what a definition needs beyond a public address is reported', async () => {
  const needs = async (definition: object) => {
    const result = await read(JSON.stringify(definition), 'one', { A: 'value-of-a' });
    assert.ok(result.ok, JSON.stringify(definition));
    return result.needs;
  };
  assert.deepEqual(await needs({ url: 'https://example.com/mcp', headers: { a: 'b' } }), []);
  assert.deepEqual(await needs({ url: 'http://2130706433/' }), [{ kind: 'address', host: '127.0.0.1' }]);
  assert.deepEqual(await needs({ url: 'https://example.com/', headers: { a: '${A}' } }), [
    { kind: 'reads', what: '${…}' },
  ]);
  assert.deepEqual(await needs({ url: 'https://example.com/', bearer_token_env_var: 'A' }), [
    { kind: 'reads', what: 'bearer_token_env_var' },
  ]);
  assert.deepEqual(await needs({ command: 'npx', args: ['x'] }), [{ kind: 'command', command: 'npx' }]);
  assert.deepEqual(await needs({ command: 'npx', ssh: 'u@h' }), [{ kind: 'command', command: 'npx' }, { kind: 'ssh' }]);
  assert.deepEqual(await needs({ docker: { image: 'a' } }), [{ kind: 'container' }]);
  for (const name of [
    'LD_PRELOAD',
    'NODE_OPTIONS',
    'BASH_ENV',
    'PYTHONSTARTUP',
    'PATH',
    'DYLD_INSERT_LIBRARIES',
    'GIT_SSH_COMMAND',
    'node_options',
  ]) {
    assert.deepEqual((await needs({ command: 'npx', env: { [name]: 'x' } }))[1], { kind: 'variable', name });
  }
});

test('check:A8 a file is read only after it was checked, also if another file names it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tl-definition-'));
  try {
    writeFileSync(join(folder, 'name'), 'some.env');
    writeFileSync(join(folder, 'some.env'), 'TOKEN=value');
    const text = '{ "command": "x", "envFile": "${file:name}" }';
    const load = async (dead: string) => {
      const checked: string[] = [];
      const responds = async (file: string) => {
        checked.push(basename(file));
        return basename(file) !== dead;
      };
      const result = await loadDefinition({ text, name: 'one', folder, env: {}, responds });
      return [result.ok || result.problems.map(({ code, message }) => `${code} ${message}`), checked];
    };
    const silent = (file: string, user: string) =>
      `TL1205 ${join(folder, file)}: is not read, because its file system does not respond (used by ${user})`;
    assert.deepEqual(await load(''), [true, ['name', 'some.env']]);
    assert.deepEqual(await load('some.env'), [[silent('some.env', 'one.envFile')], ['name', 'some.env']]);
    assert.deepEqual(await load('name'), [[silent('name', 'one.envFile')], ['name']]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { NamedFiles } from '../document/read-source.ts';
import { loadConfig } from '../load-config.ts';
import { Problems, Source } from '../problem/problem.ts';
import { readEnvFile } from './read-stdio.ts';

const folder = mkdtempSync(join(tmpdir(), 'tl-env-'));
after(() => rmSync(folder, { recursive: true }));

function read(text: string): Record<string, string> {
  const file = join(folder, 'some.env');
  writeFileSync(file, text);
  const problems = new Problems();
  const named = { source: new Source('c', ''), span: { start: 0, end: 0 }, user: 'servers.a.envFile' };
  const values = readEnvFile(file, named, problems, new NamedFiles());
  assert.deepEqual(problems.errors, []);
  return Object.fromEntries(values!);
}

test('values can be plain, quoted, with comments, and with text that only resembles a comment', () => {
  const text = [
    '# a comment',
    '',
    'PLAIN = a value # said',
    'export TOKEN=abc#def\r',
    `SINGLE='kept \\n as it is' # "really"`,
    'DOUBLE="two\\nlines \\"quoted\\"" # say "hi"',
    'LOOSE="say "hi" now"',
    'HASH="a # b"',
    'EMPTY=',
    'BLANK=   ',
    'SAID= # nothing but a comment',
    'MARK=#no comment',
    'LATE =  a # b # c',
    'URL=postgres://u:p@h/x?y=z',
  ].join('\n');
  assert.deepEqual(read(text), {
    PLAIN: 'a value',
    TOKEN: 'abc#def',
    SINGLE: 'kept \\n as it is',
    DOUBLE: 'two\nlines "quoted"',
    LOOSE: 'say "hi" now',
    HASH: 'a # b',
    EMPTY: '',
    BLANK: '',
    SAID: '',
    MARK: '#no comment',
    LATE: 'a',
    URL: 'postgres://u:p@h/x?y=z',
  });
});

test('a line of any kind is read in bounded time', { timeout: 20_000 }, () => {
  // A parser with quadratic time would take minutes here.
  const blank = ' '.repeat(500_000);
  const lines = [`A=x${blank}y`, `B=${blank}y`, `C="x"${blank}y`, `D="${'\\"'.repeat(200_000)}`, `E=x${blank}#`];
  const values = read(lines.slice(0, 2).join('\n').slice(0, 1_000_000));
  assert.equal(values['A'], `x${blank}y`);
  for (const line of lines.slice(1)) assert.equal(Object.keys(read(line)).length, 1);
});

async function specOf(definition: object) {
  const text = JSON.stringify({ mcpServers: { one: { command: 'x', ...definition } } });
  return loadConfig({ inline: [{ label: '<test>', text }], cwd: tmpdir(), env: {}, strict: true });
}

test('S2.23 the fix for `~` in an argument is the home folder of this machine only for a server that runs here', async () => {
  for (const [more, fix] of [
    [{}, 'write ${userHome}'],
    [{ ssh: 'me@host' }, 'write the path of the folder on that host'],
  ] as const) {
    const result = await specOf({ args: ['--root=~/notes'], ...more });
    assert.ok(result.ok);
    assert.deepEqual(
      result.warnings.map(({ code, fix }) => [code, fix]),
      [['TL1310', fix]],
    );
  }
});

test('fault:F41 the user of a server’s process: by name or number, with or without a limit; another user needs another connection', async () => {
  const digests = new Set<string>();
  for (const [runAs, expected] of [
    [undefined, undefined],
    [{ user: 'nobody' }, { user: 'nobody', processes: null }],
    [
      { user: 64123, processes: 60 },
      { user: '64123', processes: 60 },
    ],
    [
      { user: 64123, processes: 61 },
      { user: '64123', processes: 61 },
    ],
  ] as const) {
    const result = await specOf({ runAs });
    assert.ok(result.ok, JSON.stringify(result));
    const server = result.state.servers.get('one')!;
    assert.ok(server.transport.type === 'stdio');
    assert.deepEqual(server.transport.runAs, expected);
    digests.add(server.connectionDigest);
  }
  assert.equal(digests.size, 4);
});

test('fault:F41 `runAs` has no effect on another host and causes a warning; an invalid user is refused', async () => {
  const remote = await specOf({ ssh: 'me@host', runAs: { user: 'nobody' } });
  assert.ok(remote.ok);
  assert.deepEqual(
    remote.warnings.map(({ code }) => code),
    ['TL1307'],
  );
  for (const runAs of [{ user: '' }, { user: -1 }, { processes: 3 }, { user: 'x', processes: 0 }, 'nobody']) {
    assert.equal((await specOf({ runAs })).ok, false, JSON.stringify(runAs));
  }
});

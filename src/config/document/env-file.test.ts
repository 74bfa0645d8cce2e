import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Problems } from '../problem/problem.ts';
import { Source } from '../problem/source.ts';
import { readEnvFile } from './env-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'tl-env-'));
after(() => rmSync(folder, { recursive: true }));

function read(text: string): Record<string, string> {
  const file = join(folder, 'some.env');
  writeFileSync(file, text);
  const problems = new Problems();
  const named = { source: new Source('c', ''), span: { start: 0, end: 0 }, user: 'servers.a.envFile' };
  const values = readEnvFile(file, named, problems);
  assert.deepEqual(problems.errors, []);
  return Object.fromEntries(values!);
}

test('values plain, quoted, with comments, and with what only looks like one', () => {
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
  // What takes quadratic time takes minutes here.
  const blank = ' '.repeat(500_000);
  const lines = [`A=x${blank}y`, `B=${blank}y`, `C="x"${blank}y`, `D="${'\\"'.repeat(200_000)}`, `E=x${blank}#`];
  const values = read(lines.slice(0, 2).join('\n').slice(0, 1_000_000));
  assert.equal(values['A'], `x${blank}y`);
  for (const line of lines.slice(1)) assert.equal(Object.keys(read(line)).length, 1);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cmdLine, isBatchFile } from './cmd-line.ts';

/*
 * The test does not need Windows: it follows the documented rules for variables on a command line and in a batch file, for
 * special characters outside quotes, and for the arguments of a C program.
 */

const VARIABLES: Readonly<Record<string, string>> = { cd: 'C:\\work', path: 'C:\\bin', a: '& calc.exe &' };

/** Replaces variables; an unset one stays on a command line. `%name:~from,length%` is a part, which is empty without length. */
function withVariables(line: string): string {
  let out = '';
  for (let at = 0; at < line.length; ) {
    const [whole, name, part] = /^%([^%:]+)(:~-?\d*,-?\d*)?%/.exec(line.slice(at)) ?? [];
    const value = name === undefined ? undefined : VARIABLES[name.toLowerCase()];
    if (whole === undefined || value === undefined) {
      out += line[at++];
      continue;
    }
    const [, from = '', length = ''] = /^:~(-?\d*),(-?\d*)$/.exec(part ?? '') ?? [];
    out += part === undefined ? value : value.slice(Number(from)).slice(0, Number(length));
    at += whole.length;
  }
  return out;
}

/** Fails where a character outside quotes would begin another command, a redirection or an escape. */
function assertOneCommand(line: string): void {
  let quoted = false;
  for (const character of line) {
    if (character === '"') quoted = !quoted;
    else assert.ok(quoted || !/[&|<>^()@!%\r\n\0]/.test(character), `${character} outside quotes: ${line}`);
  }
  assert.ok(!quoted, `an open quote: ${line}`);
}

/** The arguments that a C program gets from a command line. */
function split(line: string): string[] {
  const words: string[] = [];
  for (let at = 0; at < line.length; ) {
    if (line[at] === ' ') {
      at++;
      continue;
    }
    let word = '';
    let quoted = false;
    for (; at < line.length && (quoted || line[at] !== ' '); at++) {
      const slashes = /^\\*/.exec(line.slice(at))![0].length;
      if (line[at + slashes] === '"') {
        word += '\\'.repeat(slashes >> 1);
        at += slashes;
        if (slashes % 2 === 1) word += '"';
        else if (quoted && line[at + 1] === '"') {
          word += '"';
          at++;
        } else quoted = !quoted;
      } else word += line[at];
    }
    words.push(word);
  }
  return words;
}

/** The arguments of the program that `npx.cmd` starts with `%*`. */
function received(line: string): readonly string[] {
  const [, options = '', command = ''] = /^((?:\/\S+ )+)"(.*)"$/s.exec(line) ?? [];
  assert.deepEqual(options.trim().split(' '), ['/d', '/e:on', '/v:off', '/s', '/c']);
  const given = withVariables(command);
  assertOneCommand(given);
  const rest = given.slice(given.indexOf('" ') + 2);
  // `%*` is put in after variables were replaced.
  const inBatch = `"C:\\node.exe" "C:\\npx-cli.js" ${rest}`;
  assertOneCommand(inBatch);
  return split(inBatch).slice(2);
}

const NPX = 'C:\\Program Files\\nodejs\\npx.cmd';

test('arguments of a batch file arrive as they are', () => {
  const args = [
    ...[
      '-y',
      '@scope/server',
      '',
      'two words',
      'a & calc.exe',
      '" & calc.exe & "',
      '"&calc.exe',
      '""',
      'a"b',
      '\\"',
      '\\',
    ],
    ...[
      'C:\\folder\\',
      'C:\\a b\\',
      '%PATH%',
      '%cd:~,%',
      '100 %',
      '%',
      '%%',
      '%a%',
      '^',
      '^&',
      '!a!',
      '(x)',
      '<in',
      '>out',
      '|',
      'tab\there',
    ],
    ...['{"a": "b c"}', "it's", 'ü', '%CD%\\"%a%" & x'],
  ];
  assert.deepEqual(received(cmdLine(NPX, args)!), args);
});

test('special characters in any order arrive as they are', () => {
  const character = fc.constantFrom(
    '"',
    '\\',
    '%',
    '&',
    '|',
    '<',
    '>',
    '^',
    '!',
    '(',
    ')',
    ' ',
    'a',
    'cd',
    'PATH',
    ':',
    '~',
    ',',
    '=',
  );
  const args = fc.array(
    fc.array(character).map((parts) => parts.join('')),
    { minLength: 1, maxLength: 4 },
  );
  fc.assert(
    fc.property(args, (words) => assert.deepEqual(received(cmdLine(NPX, words)!), words)),
    { numRuns: 3_000 },
  );
});

test('the file is one word, whatever is in its path', () => {
  const line = cmdLine('C:\\a & b\\100%\\%a%\\x.cmd', ['y'])!;
  const command = withVariables(/ "(.*)"$/.exec(line)![1]!);
  assertOneCommand(command);
  assert.equal(split(command)[0], 'C:\\a & b\\100%\\%a%\\x.cmd');
});

test('a line break or NUL is refused', () => {
  for (const word of ['a\nb', 'a\r', '\0']) {
    assert.equal(cmdLine(NPX, [word]), null);
    assert.equal(cmdLine(word, []), null);
  }
});

test('a batch file is recognized by its extension, as Windows reads it', () => {
  for (const file of ['npx.cmd', 'C:\\x.BAT', 'x.cmd.', 'x.bat  ', 'x.cmd . .']) assert.ok(isBatchFile(file), file);
  for (const file of ['npx', 'node.exe', 'x.cmd.exe', 'cmd', 'x.bats']) assert.ok(!isBatchFile(file), file);
});

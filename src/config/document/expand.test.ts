import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ClientId } from '../client.ts';
import { Problems, Source } from '../problem/problem.ts';
import { Expander, inputVariable } from './expand.ts';
import { NamedFiles } from './read-source.ts';

const ENV = { A: 'alpha', EMPTY: '', REF: '${A} $A {env:A}', HOME: '/home/me', SECRET_TOKEN: 'tok-123456' };

function expand(text: string, client: ClientId = 'unknown', shellNames = false) {
  const written = JSON.stringify(text);
  const problems = new Problems();
  const secrets = new Set<string>();
  const expander = new Expander({
    source: new Source('<test>', written),
    problems,
    client,
    fileFolder: '/files',
    workspaceFolder: '/srv/shop',
    env: ENV,
    inputs: new Map([['api-key', 'answer-1']]),
    stored: new Map([
      ['k.1', 'stored-1 ${A}'],
      ['lost', null],
    ]),
    secrets,
    files: new NamedFiles(),
  });
  const node = { kind: 'string', span: { start: 0, end: written.length }, value: text, text } as const;
  const value = expander.expand(node, 'here', shellNames);
  return {
    value,
    codes: problems.errors.map(({ code, column }) => `${code}:${column}`),
    secrets: [...secrets],
  };
}

const GOOD: readonly [text: string, value: string][] = [
  ['plain', 'plain'],
  ['${A}', 'alpha'],
  ['x${A}y${env:A}z', 'xalphayalphaz'],
  ['${NOPE:-https://x:1/}', 'https://x:1/'],
  ['${NOPE:-}', ''],
  ['${EMPTY}', ''],
  ['${EMPTY:-d}', 'd'],
  ['${env:NOPE:-d}', 'd'],
  ['${input:api-key}', 'answer-1'],
  ['x${secret:k.1}', 'xstored-1 ${A}'],
  ['${workspaceFolder}/x', '/srv/shop/x'],
  ['${workspaceFolderBasename}', 'shop'],
  ['${userHome}', '/home/me'],
  ['a${pathSeparator}b${/}c', 'a/b/c'],
  ['$${A}', '${A}'],
  ['$$${A}', '$${A}'],
  ['cost: 5$ $A %A% {env:A}', 'cost: 5$ $A %A% {env:A}'],
];

for (const [text, value] of GOOD) {
  test(`${text} becomes ${value}`, () => assert.deepEqual(expand(text).value, value));
}

test('the result of a reference is not expanded again', () => {
  assert.equal(expand('${REF}').value, ENV.REF);
  assert.equal(expand('${REF}', 'opencode').value, ENV.REF);
  assert.equal(expand('$REF', 'gemini', true).value, ENV.REF);
  fc.assert(
    fc.property(fc.string(), (value) => {
      const problems = new Problems();
      const options = {
        source: new Source('<test>', '"${V}"'),
        problems,
        client: 'gemini',
        fileFolder: '/',
        workspaceFolder: '/',
      } as const;
      const expander = new Expander({
        ...options,
        env: { V: value },
        inputs: new Map(),
        secrets: new Set(),
        files: new NamedFiles(),
      });
      const node = { kind: 'string', span: { start: 0, end: 6 }, value: '${V}', text: '${V}' } as const;
      assert.equal(expander.expand(node, 'here', true), value);
    }),
  );
});

test('$NAME counts in the env block of Gemini only, {env:NAME} in opencode only', () => {
  assert.equal(expand('$A', 'gemini', true).value, 'alpha');
  assert.equal(expand('$A', 'gemini', false).value, '$A');
  assert.equal(expand('$A', 'claude', true).value, '$A');
  assert.equal(expand('{env:A}', 'opencode').value, 'alpha');
  assert.equal(expand('{env:A}', 'claude').value, '{env:A}');
});

const BAD: readonly [text: string, code: string][] = [
  ['ab${NOPE}', 'TL1203:4'],
  ['${a b}', 'TL1201:2'],
  ['${}', 'TL1201:2'],
  ['x${A', 'TL1201:3'],
  ['${NOPE:-${A}}', 'TL1201:2'],
  ['${command:rm}', 'TL1202:2'],
  ['${input:other}', 'TL1204:2'],
  ['${file:missing}', 'TL1205:2'],
  ['a${secret:k}', 'TL1208:3'],
  ['${secret:lost}', 'TL1208:2'],
  ['${secret:a/b}', 'TL1201:2'],
  ['"\\${A}${NOPE}', 'TL1203:10'],
];

for (const [text, code] of BAD) {
  test(`${text} is refused at its position`, () => assert.deepEqual(expand(text).codes, [code]));
}

test('all references of a string are checked, not only the first bad one', () => {
  assert.deepEqual(expand('${X}${Y}').codes, ['TL1203:2', 'TL1203:6']);
});

test('values that may be secret are kept for the scrubber, text around them is not', () => {
  assert.deepEqual(expand('${SECRET_TOKEN}').secrets, ['tok-123456']);
  assert.deepEqual(expand('${input:api-key}').secrets, ['answer-1']);
  assert.deepEqual(expand('${HOME}/${NOPE:-default-value}').secrets, []);
});

test('${file:…} is read without the line break at its end', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tl-expand-'));
  writeFileSync(join(folder, 'secret'), 'two\nlines\r\n');
  const { value, secrets } = expand(`\${file:${join(folder, 'secret')}}`);
  rmSync(folder, { recursive: true });
  assert.equal(value, 'two\nlines');
  assert.deepEqual(secrets, ['two\nlines']);
});

test('an input that is not declared is compared with those that are', () => {
  const suggestion = (id: string, declared: readonly string[]): string | undefined => {
    const problems = new Problems();
    const text = `\${input:${id}}`;
    const expander = new Expander({
      source: new Source('<test>', text),
      problems,
      client: 'unknown',
      fileFolder: '/',
      workspaceFolder: '/',
      env: {},
      inputs: new Map(),
      declared: new Map(declared.map((one) => [one, {}])),
      secrets: new Set(),
      files: new NamedFiles(),
    });
    const span = { start: 0, end: text.length };
    assert.equal(expander.expand({ kind: 'string', span, value: text, text }, 'here'), null);
    return /; (.*)$/.exec(problems.errors[0]!.message)?.[1];
  };
  assert.equal(suggestion('tokn', ['team', 'token']), '"inputs" has "token", did you mean that?');
  assert.equal(suggestion('tk', ['token']), '"inputs" has "token", did you mean that?');
  assert.equal(suggestion('tk', ['team', 'token']), undefined);
  assert.equal(suggestion('token', ['token']), undefined);
});

test('an input is read from a variable of its name', () => {
  assert.equal(inputVariable('api-key.2'), 'TRUNKLINE_INPUT_API_KEY_2');
});

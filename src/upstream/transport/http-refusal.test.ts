import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAnswer } from './http-refusal.ts';

const cases: [string, boolean][] = [
  ['{"jsonrpc":"2.0","id":1,"result":{}}', true],
  ['{"result":{"method":"x"},"jsonrpc":"2.0","id":1}', true],
  [' \r\n{ "error" : {} }', true],
  ['{"id":{"odd":["}","\\"]"]},"jsonrpc":"2.0","error":{"code":1}}', true],
  ['[{"jsonrpc":"2.0","id":1,"result":{}}]', true],
  ['{"jsonrpc":"2.0","method":"notifications/progress","params":{"result":1}}', false],
  ['{"params":{"result":{}},"method":"roots/list","id":2}', false],
  ['{"x":"\\",\\"result\\":","method":"m"}', false],
  ['{"jsonrpc":"2.0","id":1}', false],
  ['{}', false],
  ['[]', false],
  ['', false],
  ['"result"', false],
  ['{"jsonrpc', false],
  ['{"jsonrpc":', false],
  ['{"jsonrpc":"2.0', false],
  ['{"jsonrpc":"2.0",', false],
];

for (const [text, expected] of cases) {
  test(`${expected ? 'an answer' : 'no answer'}: ${text}`, () => {
    assert.equal(isAnswer(Buffer.from(text)), expected);
  });
}

test('the size of a result does not matter', () => {
  const deep = `{"jsonrpc":"2.0","id":1,"result":${'['.repeat(1_000_000)}`;
  assert.equal(isAnswer(Buffer.from(deep)), true);
});

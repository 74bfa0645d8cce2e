import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answeredRequest } from './in-flight.ts';

const big = 'x'.repeat(5000);
const cases: readonly (readonly [string, number])[] = [
  ['{"jsonrpc":"2.0","id":7,"result":{}}', 7],
  ['{"jsonrpc": "2.0", "id": 7, "error": {"code": 1}}', 7],
  [`{"result":{"content":[{"text":"${big}"}],"id":3},"jsonrpc":"2.0","id":7}`, 7],
  [`{"result":{"id":3,"x":"${big}"},"id": 7 , "jsonrpc":"2.0" } \r`, 7],
  [`{"result":{},"id":7,"_future":"${big}"}`, 7],
  [`{"id":7,"_future":{"result":1,"x":["${big}"]},"result":{}}`, 7],
  ['{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}', 0],
  ['{"params":{"result":{}},"method":"x","id":7}', 0],
  ['{"jsonrpc":"2.0","id":"7","result":{}}', 0],
  ['{"jsonrpc":"2.0","id":7.5,"result":{}}', 0],
  ['{"jsonrpc":"2.0","id":-7,"result":{}}', 0],
  ['{"jsonrpc":"2.0","id":99999999999999999999,"result":{}}', 0],
  ['{"jsonrpc":"2.0","id":null,"error":{}}', 0],
  ['{"jsonrpc":"2.0","result":{"text":"\\",\\"id\\":7}"}}', 0],
  ['{"jsonrpc":"2.0","method":"notifications/x","params":{"id":7}}', 0],
  ['[{"jsonrpc":"2.0","id":7,"result":{}}]', 0],
  ['{"id":7', 0],
  ['{"id":7,"res', 0],
  ['', 0],
];

for (const [text, expected] of cases) {
  test(`W4.2 trap: ${text.slice(0, 60)} answers ${expected}`, () => {
    const bytes = Buffer.from(text);
    assert.equal(answeredRequest(bytes, bytes), expected);
  });
}

test('the id is found in the first and the last KiB of a line', () => {
  const atEnd = Buffer.from(`{"result":{"text":"${big}"},"jsonrpc":"2.0","id":7}`);
  const atStart = Buffer.from(`{"jsonrpc":"2.0","id":8,"result":{"text":"${big}"}}`);
  const nested = Buffer.from(`{"jsonrpc":"2.0","result":{"id":9,"text":"${big}"}}`);
  const cut = (line: Buffer): number => answeredRequest(line.subarray(0, 1024), line.subarray(-1024));
  assert.deepEqual([cut(atEnd), cut(atStart), cut(nested)], [7, 8, 0]);
});

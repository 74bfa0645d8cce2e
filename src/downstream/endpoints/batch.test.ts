import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../../model/message.ts';
import { readBatch } from './batch.ts';

test('a message of a batch does not keep the whole batch in memory', () => {
  const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
  const body = Buffer.from(`[${ping},{"jsonrpc":"2.0","method":"x","params":{"p":"${'x'.repeat(100_000)}"}}]`);
  const [first] = readBatch(body, '2025-03-26') as Message[];
  assert.equal(first!.bytes.toString(), ping);
  assert.notEqual(first!.bytes.buffer, body.buffer);
});

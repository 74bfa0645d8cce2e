import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scanMessage } from '../protocol/scan.ts';
import { resultToStateless } from '../protocol/stateless/result-to-stateless.ts';
import { lend } from './lent-memory.ts';
import type { Message } from './message.ts';
import { inPlaceOf } from './passed-on.ts';

/** A result that came in lent memory. */
function came(): Message {
  const text = JSON.stringify({ jsonrpc: '2.0', id: 7, result: { content: [], text: 'x'.repeat(300_000) } });
  const bytes = lend(text.length);
  bytes.write(text);
  const message = scanMessage(bytes, 'stateful', 'strict');
  assert.ok(!('reason' in message));
  return message;
}

test('what a tool answered is let go of once it stands in other words', () => {
  const result = came();
  const translated = inPlaceOf(result, resultToStateless(result, 'tools/call', null), 'tools/call');
  assert.equal(result.bytes.length, 0);
  const { result: body } = JSON.parse(translated.bytes.toString());
  assert.equal(body.resultType, 'complete');
  assert.equal(body.text.length, 300_000);
});

test('what may be kept or shared stays, and so does what needed no other words', () => {
  const list = came();
  inPlaceOf(list, resultToStateless(list, 'tools/list', null), 'tools/list');
  assert.ok(list.bytes.length > 300_000);
  const same = came();
  assert.equal(inPlaceOf(same, same, 'tools/call'), same);
  assert.ok(same.bytes.length > 300_000);
});

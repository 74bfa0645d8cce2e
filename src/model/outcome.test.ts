import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scanMessage } from '../protocol/scan.ts';
import { resultToStateful } from '../protocol/stateful/to-stateful.ts';
import { resultToStateless } from '../protocol/stateless/to-stateless.ts';
import type { Message } from './message.ts';
import { replaceAnswer } from './outcome.ts';
import { takeBuffer } from './pooled-buffers.ts';

/** A result that came in lent memory. */
function came(): Message {
  const text = JSON.stringify({ jsonrpc: '2.0', id: 7, result: { content: [], text: 'x'.repeat(300_000) } });
  const bytes = takeBuffer(text.length);
  bytes.write(text);
  const message = scanMessage(bytes, 'stateful', 'strict');
  assert.ok(!('reason' in message));
  return message;
}

test('a tool’s answer is released once its rewritten form exists', () => {
  const result = came();
  const translated = replaceAnswer(result, resultToStateless(result, 'tools/call', null), 'tools/call');
  assert.equal(result.bytes.length, 0);
  const { result: body } = JSON.parse(translated.bytes.toString());
  assert.equal(body.resultType, 'complete');
  assert.equal(body.text.length, 300_000);
});

test('an answer is not released if it may be kept or shared, or was not rewritten', () => {
  const list = came();
  replaceAnswer(list, resultToStateless(list, 'tools/list', null), 'tools/list');
  assert.ok(list.bytes.length > 300_000);
  const same = came();
  assert.equal(replaceAnswer(same, same, 'tools/call'), same);
  assert.ok(same.bytes.length > 300_000);
});

test('goal:G12 a large answer of a tool is rewritten in place, at both ends', () => {
  const changed = (json: string, own: boolean) => {
    const bytes = takeBuffer(Buffer.byteLength(json));
    bytes.write(json);
    const message = scanMessage(bytes, 'stateless', 'relaxed');
    assert.ok(!('reason' in message));
    const copiedFrom = bytes.buffer.byteLength;
    const translated = resultToStateful(message, 'tools/call', false, own);
    return { bytes, copiedFrom, translated };
  };
  const text = 'y'.repeat(1_000_000);
  const info = '"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"},"kept":[1]}';
  for (const json of [
    `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[{"type":"text","text":"${text}"}],${info}}}`,
    `{"result":{"content":[{"type":"text","text":"${text}"}],"resultType":"complete",${info}},"jsonrpc":"2.0","id":7}`,
    `{"result":{${info},"content":[{"type":"text","text":"${text}"}],"resultType":"complete"},"jsonrpc":"2.0","id":7}`,
  ]) {
    const copy = changed(json, false);
    const moved = changed(json, true);
    assert.equal(moved.translated.bytes.toString(), copy.translated.bytes.toString());
    assert.equal(moved.translated.body.toString(), copy.translated.body.toString());
    assert.equal(moved.translated.id, '7');
    assert.equal(copy.bytes.length, json.length, 'an answer that is not owned stays as it was');
    assert.equal(moved.bytes.length, 0);
    assert.equal(moved.translated.bytes.buffer.byteLength, moved.copiedFrom, 'it is the same memory');
  }
});

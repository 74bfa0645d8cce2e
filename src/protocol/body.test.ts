import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../model/message.ts';
import { cancellationReason, progressToken, subscriptionId } from './body.ts';
import { text } from './fields.ts';
import { isScanFailure, scanMessage } from './scan.ts';
import { editObject, elementsChange, metaChange, splice, spliceMessage } from './splice.ts';

function message(json: string): Message {
  const scanned = scanMessage(Buffer.from(json), 'stateless', 'relaxed');
  assert.ok(!isScanFailure(scanned));
  return scanned;
}

test('check:B12 progress tokens are found and replaced in place, in their own spelling', () => {
  const request = message(
    '{"id":1,"params":{"arguments":{"_meta":{"progressToken":0}},"_meta":{"x":1.0,"progressToken": 9007199254740993}},"jsonrpc":"2.0","method":"tools/call"}',
  );
  const token = progressToken(request)!;
  assert.equal(text(request.bytes, token), '9007199254740993');
  const mapped = spliceMessage(request, [{ ...token, insert: '"t"' }]);
  assert.equal(mapped.bytes.toString(), request.bytes.toString().replace('9007199254740993', '"t"'));
  const progress = message(
    '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":0.10,"progressToken":"a\\"b"}}',
  );
  assert.equal(text(progress.bytes, progressToken(progress)!), '"a\\"b"');
  assert.equal(
    splice(progress.bytes, [{ ...progressToken(progress)!, insert: '7' }]).toString(),
    progress.bytes.toString().replace('"a\\"b"', '7'),
  );
});

test('messages without a token have none', () => {
  for (const json of [
    '{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"progressToken":1}}',
    '{"jsonrpc":"2.0","method":"notifications/message","params":{"progressToken":1}}',
    '{"jsonrpc":"2.0","id":1,"result":{"_meta":{"progressToken":1}}}',
  ]) {
    assert.equal(progressToken(message(json)), null, json);
  }
});

test('the id of a subscription is read from its notifications and from the answer that ends it', () => {
  const key = '"io.modelcontextprotocol/subscriptionId"';
  for (const json of [
    `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{${key}:"s"}}}`,
    `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{${key}:"s"}}}`,
  ]) {
    const found = message(json);
    assert.equal(text(found.bytes, subscriptionId(found)!), '"s"');
  }
  assert.equal(subscriptionId(message('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')), null);
});

test('`_meta` is created, changed, and removed when it is empty', () => {
  const meta = (json: string, changes: [string, string | null][]): string => {
    const bytes = Buffer.from(json);
    const whole = { start: 0, end: bytes.length };
    const change = metaChange(bytes, whole, changes);
    return change === null ? 'same' : editObject(bytes, whole, [change]).toString();
  };
  assert.equal(meta('{"a":1}', [['k', '2']]), '{"_meta":{"k":2},"a":1}');
  assert.equal(meta('{}', [['k', null]]), 'same');
  assert.equal(meta('{"_meta":{"k":1}}', [['k', '1']]), 'same');
  assert.equal(meta('{"_meta":{"k":1, "l":1.0}}', [['k', null]]), '{"_meta":{"l":1.0}}');
  assert.equal(meta('{"_meta":{ "k":1 },"a":1}', [['k', null]]), '{"a":1}');
  assert.equal(meta('{"_meta":null}', [['k', '1']]), '{"_meta":{"k":1}}');
});

test('elements are replaced one by one', () => {
  const bytes = Buffer.from('{"l":[ {"a":1} , {"b":1.0}, 3 ]}');
  const whole = { start: 0, end: bytes.length };
  const change = elementsChange(bytes, whole, 'l', (item) => (item.toString() === '3' ? Buffer.from('"three"') : item));
  assert.equal(editObject(bytes, whole, [change!]).toString(), '{"l":[ {"a":1} , {"b":1.0}, "three" ]}');
  assert.equal(
    elementsChange(bytes, whole, 'l', (item) => item),
    null,
  );
  assert.equal(
    elementsChange(bytes, whole, 'none', () => Buffer.alloc(0)),
    null,
  );
});

test('the reason of a cancellation is the client’s, up to a thousand characters; else the gateway’s', () => {
  const given = (reason: string) =>
    cancellationReason(
      message(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":${reason}}}`),
    );
  assert.equal(given('"User pressed \\u0045sc"'), 'User pressed Esc');
  for (const none of ['""', 'null', '7']) assert.equal(given(none), 'the client cancelled the request');
  assert.equal(given(`"${'x'.repeat(5_000)}"`).length, 1_000);
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Era, Message } from '../../model/message.ts';
import { errorAnswer, notification, result } from '../compose.ts';
import { isScanFailure, scanMessage } from '../scan.ts';
import {
  errorToStateful,
  notificationToStateful,
  resultToStateful,
  toolToStateful,
  toStateful,
  wrapsOutput,
} from './to-stateful.ts';

const SAID =
  '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},' +
  '"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/logLevel":"info"';

function scanned(json: string, era: Era = 'stateless'): Message {
  const message = scanMessage(Buffer.from(json), era, 'strict');
  assert.ok(!isScanFailure(message));
  return message;
}

/** The translated bytes; their ranges must equal those that a scan finds. */
function checked(message: Message): string {
  assert.deepEqual({ ...message }, { ...scanned(message.bytes.toString(), 'stateful') });
  return message.bytes.toString();
}

function translatedResult(json: string, method: string, wraps = false): unknown {
  return JSON.parse(checked(resultToStateful(result('7', json, 'stateless'), method, wraps))).result;
}

describe('requests of stateless clients for stateful servers', () => {
  test('S2.12 check:B12 lose the members that the session has declared; their own members stay', () => {
    const args = '"arguments":{"n":12345678901234567890,"z":-0,"e":1E400,"f":1.0,"s":"\\u00e9\\/"}';
    const request = scanned(
      `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"t",${args},"_meta":{${SAID},"progressToken":1.0,"traceparent":"00-a"}}}`,
    );
    assert.equal(
      checked(toStateful(request)),
      `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"t",${args},"_meta":{"progressToken":1.0,"traceparent":"00-a"}}}`,
    );
  });

  test('an empty `_meta` is removed, and so are the members of input rounds', () => {
    const request = scanned(
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{${SAID}},"requestState":"s","inputResponses":{},"name":"t"}}`,
    );
    assert.equal(checked(toStateful(request)), '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}');
    const list = scanned(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{${SAID}}}}`);
    assert.equal(checked(toStateful(list)), '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}');
  });

  test('of the same era pass unchanged', () => {
    const request = scanned('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 'stateful');
    assert.equal(toStateful(request), request);
  });
});

describe('results of stateless servers for stateful clients', () => {
  test('S2.14 check:B12 lose type, cache hints and server name, and keep every byte of content', () => {
    const content =
      '"content":[{"type":"audio","data":"AA==","x":1.0},{"type":"new","v":-0}],"ttlMs":1.0,"structuredContent":{"n":1E400}';
    const meta = '"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"v/t":12345678901234567890}';
    assert.equal(
      checked(resultToStateful(result('7', `{"resultType":"complete",${content},${meta}}`, 'stateless'), 'tools/call')),
      `{"jsonrpc":"2.0","id":7,"result":{${content},"_meta":{"v/t":12345678901234567890}}}`,
    );
    assert.deepEqual(
      translatedResult(
        '{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{}}}',
        'resources/read',
      ),
      { contents: [] },
    );
    assert.deepEqual(translatedResult('{"resultType":"complete"}', 'completion/complete'), {});
  });

  test('structured content that is no object is wrapped, and copied into the text if that is missing', () => {
    const text = [{ type: 'text', text: 'two' }];
    assert.deepEqual(
      translatedResult(
        '{"resultType":"complete","content":[{"type":"text","text":"two"}],"structuredContent":[1,2]}',
        'tools/call',
      ),
      {
        content: text,
        structuredContent: { result: [1, 2] },
      },
    );
    assert.deepEqual(
      translatedResult('{"resultType":"complete","content":[],"structuredContent":null}', 'tools/call'),
      {
        content: [{ type: 'text', text: 'null' }],
        structuredContent: { result: null },
      },
    );
    assert.deepEqual(translatedResult('{"resultType":"complete","structuredContent":"é\\n"}', 'tools/call'), {
      content: [{ type: 'text', text: '"é\\n"' }],
      structuredContent: { result: 'é\n' },
    });
    assert.deepEqual(
      translatedResult('{"resultType":"complete","content":[],"structuredContent":{"a":1}}', 'tools/call', true),
      {
        content: [{ type: 'text', text: '{"a":1}' }],
        structuredContent: { result: { a: 1 } },
      },
    );
    const exact = checked(
      resultToStateful(result('7', '{"content":[{}],"structuredContent":[1.0,1E400]}', 'stateless'), 'tools/call'),
    );
    assert.equal(
      exact,
      '{"jsonrpc":"2.0","id":7,"result":{"content":[{}],"structuredContent":{"result":[1.0,1E400]}}}',
    );
  });

  test('S2.17 output schemas that describe no object are wrapped the same way', () => {
    const tool = (schema: string) => Buffer.from(`{"name":"t","v":1.0,"outputSchema":${schema}}`);
    const object = tool('{"type":"object","properties":{}}');
    assert.equal(toolToStateful(object), object);
    assert.equal(wrapsOutput(object), false);
    assert.equal(wrapsOutput(Buffer.from('{"name":"outputSchema"}')), false);
    const array = tool('{"type":"array","items":{"minimum":1.0}}');
    assert.equal(wrapsOutput(array), true);
    const wrapped =
      '{"type":"object","properties":{"result":{"type":"array","items":{"minimum":1.0}}},"required":["result"]}';
    assert.equal(toolToStateful(array).toString(), `{"name":"t","v":1.0,"outputSchema":${wrapped}}`);
    assert.equal(wrapsOutput(tool('{"oneOf":[]}')), true);
    assert.equal(wrapsOutput(tool('{"type":["object","null"]}')), true);
    const list = translatedResult(
      `{"resultType":"complete","tools":[${array},{"name":"u"}],"ttlMs":1,"cacheScope":"public"}`,
      'tools/list',
    );
    assert.deepEqual(list, { tools: [JSON.parse(toolToStateful(array).toString()), { name: 'u' }] });
  });

  test('references inside a wrapped schema still refer to the schema', () => {
    const tool = Buffer.from(
      '{"outputSchema":{"type":"array","items":{"$ref":"#/$defs/x"},"$defs":{"x":{"$ref":"#"}}}}',
    );
    const { outputSchema } = JSON.parse(toolToStateful(tool).toString());
    const { $id, ...schema } = outputSchema.properties.result;
    assert.match($id, /^urn:trunkline:output:[0-9a-f]{16}$/);
    assert.deepEqual(schema, JSON.parse(tool.toString()).outputSchema);
    const named = Buffer.from('{"outputSchema":{"$id":"x:y","type":"array","items":{"$ref":"#"}}}');
    assert.equal(JSON.parse(toolToStateful(named).toString()).outputSchema.properties.result.$id, 'x:y');
  });

  test('of an unknown type are a failure of the server', () => {
    const odd = resultToStateful(result('"a"', '{"resultType":"odd","content":[]}', 'stateless'), 'tools/call');
    const answer = JSON.parse(checked(odd));
    assert.deepEqual([answer.id, answer.error.code, answer.error.data.outcome], ['a', 53005, 'UNKNOWN']);
    assert.equal(resultToStateful(result('1', '{"resultType":5}', 'stateless'), 'tools/call').kind, 'error');
  });

  test('of the same era, or that are no objects, pass unchanged', () => {
    const own = result('7', '{"resultType":"mine"}', 'stateful');
    assert.equal(resultToStateful(own, 'tools/call'), own);
  });
});

describe('errors and notifications of stateless servers for stateful clients', () => {
  test('S2.1 an unknown resource has its own code', () => {
    const error = (code: number, data: string | null, method: string) =>
      JSON.parse(checked(errorToStateful(errorAnswer('7', code, 'm', data, 'stateless'), method))).error;
    assert.deepEqual(error(-32602, '{"uri":"file:///a","n":1}', 'resources/read'), {
      code: -32002,
      message: 'm',
      data: { uri: 'file:///a', n: 1 },
    });
    assert.equal(error(-32602, null, 'resources/read').code, -32602);
    assert.equal(error(-32602, '{"uri":"file:///a"}', 'tools/call').code, -32602);
    assert.deepEqual(error(-32021, '{"requiredCapabilities":{"sampling":{}}}', 'tools/call'), {
      code: -32021,
      message: 'm',
      data: { requiredCapabilities: { sampling: {} } },
    });
    const own = errorAnswer('7', -32602, 'm', '{"uri":""}', 'stateful');
    assert.equal(errorToStateful(own, 'resources/read'), own);
  });

  test('notifications lose their subscription id; some have no counterpart', () => {
    const key = '"io.modelcontextprotocol/subscriptionId"';
    const updated = notification(
      'notifications/resources/updated',
      `{"_meta":{${key}:3,"v/t":1.0},"uri":"a:b"}`,
      'stateless',
    );
    assert.equal(
      checked(notificationToStateful(updated)!),
      '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"v/t":1.0},"uri":"a:b"}}',
    );
    const changed = notification('notifications/tools/list_changed', null, 'stateless');
    assert.equal(checked(notificationToStateful(changed)!), changed.bytes.toString());
    assert.equal(
      notificationToStateful(notification('notifications/subscriptions/acknowledged', '{}', 'stateless')),
      null,
    );
    const own = notification('notifications/progress', '{}', 'stateful');
    assert.equal(notificationToStateful(own), own);
  });
});

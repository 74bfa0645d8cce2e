import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Era, Message } from '../../model/message.ts';
import { errorAnswer, notification, result } from '../compose.ts';
import { isScanFailure, scanMessage } from '../scan.ts';
import { errorToStateless, notificationToStateless, resultToStateless, toStateless } from './to-stateless.ts';

const CLIENT = { capabilities: '{"roots":{"listChanged":true},"sampling":{}}', info: '{"name":"c","version":"1"}' };
const SAID =
  '"io.modelcontextprotocol/protocolVersion":"2026-07-28",' +
  '"io.modelcontextprotocol/clientCapabilities":{"roots":{"listChanged":true},"sampling":{}},' +
  '"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}';

function scanned(json: string, era: Era = 'stateful'): Message {
  const message = scanMessage(Buffer.from(json), era, 'strict');
  assert.ok(!isScanFailure(message));
  return message;
}

/** The translated bytes; their ranges must be what a scan of them finds. */
function checked(message: Message): string {
  assert.deepEqual({ ...message }, { ...scanned(message.bytes.toString(), 'stateless') });
  return message.bytes.toString();
}

describe('requests of stateful clients for stateless servers', () => {
  test('S2.12 check:B12 name the caller and keep their own members', () => {
    const params =
      '"name":"t","arguments":{"n":12345678901234567890,"z":-0,"e":1E400,"f":1.0,"s":"\\u00e9\\/"},"vendor":[1.50]';
    const request = scanned(`{"params":{${params}},"jsonrpc":"2.0","id":"x","method":"tools/call"}`);
    assert.equal(
      checked(toStateless(request, CLIENT)),
      `{"params":{"_meta":{${SAID}},${params}},"jsonrpc":"2.0","id":"x","method":"tools/call"}`,
    );
  });

  test('keep the contents of `_meta`, except fields that only the gateway sets', () => {
    const forged = '"io.modelcontextprotocol/protocolVersion":"1999","io.modelcontextprotocol/logLevel":"debug"';
    const request = scanned(
      `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":"p","traceparent":"00-a",${forged}},"cursor":""}}`,
    );
    const meta = JSON.parse(checked(toStateless(request, CLIENT))).params._meta;
    assert.deepEqual(meta, { ...JSON.parse(`{${SAID}}`), progressToken: 'p', traceparent: '00-a' });
    const levelled = toStateless(request, { ...CLIENT, info: null }, 'warning');
    const { _meta } = JSON.parse(checked(levelled)).params;
    assert.equal(_meta['io.modelcontextprotocol/logLevel'], 'warning');
    assert.ok(!('io.modelcontextprotocol/clientInfo' in _meta));
  });

  test('get params if they had none; client tasks are not declared, and `task` is not passed', () => {
    const bare = toStateless(scanned('{"jsonrpc":"2.0","id":1,"method":"tools/list"}'), CLIENT);
    assert.equal(checked(bare), `{"params":{"_meta":{${SAID}}},"jsonrpc":"2.0","id":1,"method":"tools/list"}`);
    const client = { capabilities: '{"tasks":{"list":{}},"elicitation":{}}', info: null };
    const call = toStateless(
      scanned('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","task":{"ttl":1}}}'),
      client,
    );
    const { params } = JSON.parse(checked(call));
    assert.deepEqual(params._meta['io.modelcontextprotocol/clientCapabilities'], { elicitation: {} });
    assert.deepEqual(Object.keys(params).sort(), ['_meta', 'name']);
  });

  test('of the same era pass unchanged', () => {
    const request = scanned('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 'stateless');
    assert.equal(toStateless(request, CLIENT), request);
  });
});

describe('results of stateful servers for stateless clients', () => {
  test('S2.14 check:B12 are complete, name their server, and keep every byte of content', () => {
    const content =
      '"content":[{"type":"image","data":"AA==","mimeType":"image/png","x":1.0},{"type":"new","v":-0}],"structuredContent":{"n":1E400}';
    assert.equal(
      checked(resultToStateless(result('7', `{${content}}`, 'stateful'), 'tools/call', '{"name":"s","version":"1"}')),
      `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},${content}}}`,
    );
  });

  test('of the six cacheable methods have ttlMs 0', () => {
    for (const method of [
      'tools/list',
      'prompts/list',
      'resources/list',
      'resources/templates/list',
      'resources/read',
    ]) {
      const translated = JSON.parse(
        checked(resultToStateless(result('7', '{"ttlMs":99,"cacheScope":"public"}', 'stateful'), method, null)),
      );
      assert.deepEqual(translated.result, { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }, method);
    }
    const other = JSON.parse(
      checked(resultToStateless(result('7', '{"resultType":"odd"}', 'stateful'), 'prompts/get', null)),
    );
    assert.deepEqual(other.result, { resultType: 'complete' });
  });

  test('S2.17 of tools/list lose `execution` and nothing else', () => {
    const tools =
      '{"name":"a","execution":{"taskSupport":"required"},"inputSchema":{"properties":{"execution":{"default":1.0}}},"v":-0},{"name":"b"}';
    const list = checked(
      resultToStateless(result('7', `{"tools":[${tools}],"nextCursor":""}`, 'stateful'), 'tools/list', null),
    );
    assert.equal(
      list,
      '{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private",' +
        '"tools":[{"name":"a","inputSchema":{"properties":{"execution":{"default":1.0}}},"v":-0},{"name":"b"}],"nextCursor":""}}',
    );
  });

  test('of the same era, or that are no objects, pass unchanged', () => {
    const own = result('7', '{}', 'stateless');
    assert.equal(resultToStateless(own, 'tools/call', null), own);
    assert.equal(
      checked(resultToStateless(result('7', 'null', 'stateful'), 'x', '{}')),
      '{"jsonrpc":"2.0","id":7,"result":null}',
    );
  });
});

describe('errors and notifications of stateful servers for stateless clients', () => {
  test('S2.1 an unknown resource is -32602 with its URI', () => {
    const unknown = (data: string | null) => errorAnswer('7', -32002, 'no', data, 'stateful');
    const error = (data: string | null, uri: string | null = 'file:///a') =>
      JSON.parse(checked(errorToStateless(unknown(data), 'resources/read', uri))).error;
    assert.deepEqual(error(null), { code: -32602, message: 'no', data: { uri: 'file:///a' } });
    assert.deepEqual(error('{"uri":"file:///b"}'), { code: -32602, message: 'no', data: { uri: 'file:///b' } });
    assert.deepEqual(error('{"x":1}'), { code: -32602, message: 'no', data: { x: 1, uri: 'file:///a' } });
    assert.deepEqual(error('"text"'), { code: -32602, message: 'no', data: 'text' });
    assert.deepEqual(error(null, null), { code: -32602, message: 'no' });
  });

  test('S2.15 all others pass byte for byte', () => {
    const other = errorAnswer('7', -32002, 'mine', '{"n":1.0}', 'stateful');
    assert.equal(checked(errorToStateless(other, 'tools/call', 'u')), other.bytes.toString());
    const own = errorAnswer('7', -32002, 'mine', null, 'stateless');
    assert.equal(errorToStateless(own, 'resources/read'), own);
  });

  test('notifications pass, except those that 2026-07-28 does not know', () => {
    const progress = notification('notifications/progress', '{"progressToken":1.0,"progress":0.10}', 'stateful');
    assert.equal(checked(notificationToStateless(progress)!), progress.bytes.toString());
    for (const method of [
      'notifications/initialized',
      'notifications/elicitation/complete',
      'notifications/roots/list_changed',
    ]) {
      assert.equal(notificationToStateless(notification(method, null, 'stateful')), null);
    }
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../../model/message.ts';
import { isScanFailure, scanMessage } from '../scan.ts';
import { toStateless } from './to-stateless.ts';

const VERSION = '"io.modelcontextprotocol/protocolVersion":"2026-07-28"';

function request(params: string): Message {
  const text = `{"jsonrpc":"2.0","id":"é","method":"tools/call","params":${params}}`;
  const message = scanMessage(Buffer.from(text), 'stateful', 'strict');
  assert.ok(!isScanFailure(message));
  return message;
}

function paramsOf(params: string, client: { capabilities: string; info: string | null }, level: string | null = null) {
  const translated = toStateless(request(params), client, level);
  assert.deepEqual({ ...translated }, { ...scanMessage(translated.bytes, 'stateless', 'strict') });
  return translated.body.toString();
}

test('a plain request gets its _meta first, and its other bytes stay', () => {
  const client = { capabilities: '{"x":1.0}', info: null };
  const meta = `"_meta":{${VERSION},"io.modelcontextprotocol/clientCapabilities":{"x":1.0}}`;
  assert.equal(paramsOf('{"name":"a","n":1.0 }', client), `{${meta},"name":"a","n":1.0 }`);
  // A blank before the first member takes the slow path, with the same result.
  assert.equal(paramsOf('{ "name":"a","n":1.0 }', client), `{${meta}, "name":"a","n":1.0 }`);
});

test('the description of a client is reused as long as it stays the same', () => {
  const client = { capabilities: '{}', info: '{"name":"c","version":"1"}' };
  const level = (text: string) => JSON.parse(text)._meta['io.modelcontextprotocol/logLevel'];
  assert.equal(level(paramsOf('{"name":"a"}', client)), undefined);
  assert.equal(level(paramsOf('{"name":"a"}', client, 'info')), 'info');
  assert.equal(level(paramsOf('{"name":"a"}', client, 'error')), 'error');
  assert.equal(level(paramsOf('{"name":"a"}', client)), undefined);
  client.capabilities = '{"roots":{}}';
  const meta = JSON.parse(paramsOf('{"name":"a"}', client))._meta;
  assert.deepEqual(meta['io.modelcontextprotocol/clientCapabilities'], { roots: {} });
});

test('members that must go are removed in any spelling, and large requests take the slow path', () => {
  const client = { capabilities: '{}', info: null };
  for (const hidden of [
    '"task":{"ttl":1}',
    '"t\\u0061sk":{"ttl":1}',
    '"requestState":"s"',
    '"inputRespons\\u0065s":{}',
  ]) {
    assert.deepEqual(Object.keys(JSON.parse(paramsOf(`{"name":"a",${hidden}}`, client))), ['_meta', 'name'], hidden);
  }
  const own = JSON.parse(paramsOf('{"name":"a","_m\\u0065ta":{"v/t":1}}', client));
  assert.equal(own._meta['v/t'], 1);
  const large = `{"name":"${'a'.repeat(5000)}"}`;
  assert.ok(paramsOf(large, client).endsWith(large.slice(1)));
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERROR_CATALOGUE, LATEST_STATEFUL, REVISIONS } from '../index.ts';
import {
  BACKOFF_MULTIPLIER,
  DEFAULT_REMOTE_TIMEOUT_MS,
  ERROR_CODES,
  INITIAL_BACKOFF_MS,
  MAX_BACKOFF_MS,
  newErrorResponse,
  newSuccessResponse,
  newTextContent,
  objectSchema,
  PROTOCOL_VERSION,
  parsePrefixedTool,
  prefixTool,
  RESTART_GRACE_MS,
  TOOL_NAME_DELIMITER,
  UNREACHABLE_THRESHOLD,
} from './index.ts';

test('S2.1 the codes of JSON-RPC, and none of the gateway’s own within the range that the specification reserves', () => {
  assert.deepEqual(ERROR_CODES, {
    ParseError: -32700,
    InvalidRequest: -32600,
    MethodNotFound: -32601,
    InvalidParams: -32602,
    InternalError: -32603,
  });
  for (const [name, { rpc }] of Object.entries(ERROR_CATALOGUE)) assert.ok(rpc < -32000 || rpc > 0, name);
});

test('S2.16 S2.15 an answer has exactly one of result and error; ids keep their type', () => {
  assert.deepEqual(newSuccessResponse('7', { a: 1 }), { jsonrpc: '2.0', id: '7', result: { a: 1 } });
  assert.equal(JSON.stringify(newSuccessResponse(7)), '{"jsonrpc":"2.0","id":7,"result":{}}');
  assert.equal(JSON.stringify(newSuccessResponse(7, null)), '{"jsonrpc":"2.0","id":7,"result":{}}');
  assert.deepEqual(newErrorResponse(1, -32601, 'no'), {
    jsonrpc: '2.0',
    id: 1,
    error: { code: -32601, message: 'no' },
  });
  assert.deepEqual(newErrorResponse(null, -32700, 'bad', { at: 3 }), {
    jsonrpc: '2.0',
    id: null,
    error: { code: -32700, message: 'bad', data: { at: 3 } },
  });
});

test('S3.1 S3.2 S3.3 S3.4 S4.1 the constants of the seeds, as the package exports them', () => {
  assert.deepEqual(
    [INITIAL_BACKOFF_MS, MAX_BACKOFF_MS, BACKOFF_MULTIPLIER, UNREACHABLE_THRESHOLD],
    [30_000, 1_800_000, 2, 3],
  );
  assert.deepEqual([DEFAULT_REMOTE_TIMEOUT_MS, RESTART_GRACE_MS, PROTOCOL_VERSION], [30_000, 200, '2025-06-18']);
});

test('S2.2 S2.3 S2.4 S2.14 S2.18 S4.1 the names and builders of the seeds, as the package exports them', () => {
  assert.equal(TOOL_NAME_DELIMITER, '__');
  assert.equal(prefixTool('a', 'b'), 'a__b');
  assert.deepEqual(parsePrefixedTool('a__b__c'), { server: 'a', tool: 'b__c' });
  assert.deepEqual(parsePrefixedTool('__'), { server: '', tool: '' });
  assert.throws(() => parsePrefixedTool('ab'), { message: 'invalid tool name format: ab (expected agent__tool)' });
  assert.deepEqual(newTextContent('hi'), { type: 'text', text: 'hi' });
  assert.deepEqual(objectSchema({ a: { type: 'string' }, b: { type: 'number', optional: true } }), {
    type: 'object',
    properties: { a: { type: 'string' }, b: { type: 'number' } },
    required: ['a'],
  });
  assert.ok(REVISIONS.includes('2025-06-18') && REVISIONS.includes(LATEST_STATEFUL));
});

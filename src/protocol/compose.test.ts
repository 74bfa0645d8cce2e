import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { errorAnswer, failureAnswer, notification, request, result, toolFailure, withoutAddresses } from './compose.ts';
import { isScanFailure, scanMessage } from './scan.ts';

/** A composed message must equal the message that a scan of its bytes gives. */
function asScanned(message: Message): Message {
  const scanned = scanMessage(message.bytes, message.era, message.kind === 'error' ? 'relaxed' : 'strict');
  assert.ok(!isScanFailure(scanned), isScanFailure(scanned) ? scanned.reason : '');
  assert.deepEqual({ ...message }, { ...scanned });
  return message;
}

test('S2.15 S2.16 the scan of a composed message gives what was composed', () => {
  // An id's lexeme has one character per byte.
  const id = Buffer.from('"é"').toString('latin1');
  const call = asScanned(request('tools/call', id, '{"name":"ü"}', 'stateful'));
  assert.equal(call.bytes.toString(), '{"jsonrpc":"2.0","id":"é","method":"tools/call","params":{"name":"ü"}}');
  asScanned(request('ping', '7', null, 'stateful'));
  asScanned(notification('notifications/x', '{"a":1}', 'stateless'));
  asScanned(notification('notifications/initialized', null, 'stateful'));
  asScanned(result('7', Buffer.from('{"a":"é"}'), 'stateless'));
  asScanned(errorAnswer('9007199254740993', -32601, 'no "such" method', '{"x":1.0}', 'stateful'));
});

test('S2.1 an error for a request whose id could not be read has null, or no id in 2026-07-28', () => {
  const old = asScanned(errorAnswer('', -32700, 'Invalid JSON', null, 'stateful'));
  assert.equal(old.bytes.toString(), '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Invalid JSON"}}');
  const now = asScanned(errorAnswer('', -32700, 'Invalid JSON', null, 'stateless'));
  assert.equal(now.bytes.toString(), '{"jsonrpc":"2.0","error":{"code":-32700,"message":"Invalid JSON"}}');
});

test('S2.1 each standard failure has its code; the gateway’s own have their data', () => {
  const codes = {
    PARSE_ERROR: -32700,
    INVALID_REQUEST: -32600,
    METHOD_NOT_FOUND: -32601,
    INVALID_PARAMS: -32602,
    INTERNAL: -32603,
  } as const;
  for (const [code, rpc] of Object.entries(codes) as [keyof typeof codes, number][]) {
    const error = JSON.parse(failureAnswer('1', new GatewayError(code, 'why'), 'stateful').body.toString());
    assert.deepEqual(error, { code: rpc, message: 'why' });
  }
  const own = failureAnswer('1', new GatewayError('NOT_SENT', 'down', { server: 's', retryAfterMs: 5 }), 'stateless');
  assert.deepEqual(JSON.parse(own.body.toString()), {
    code: 53001,
    message: 'down',
    data: { outcome: 'NOT_SENT', sent: false, retryable: true, retryAfterMs: 5, server: 's' },
  });
});

test('an error text that is cut within a surrogate pair is well formed', () => {
  const long = `${'x'.repeat(999)}${'😀'.repeat(10)}`;
  const error = new GatewayError('INVALID_PARAMS', long);
  for (const { bytes } of [
    errorAnswer('1', -32602, long, null, 'stateful'),
    failureAnswer('1', error, 'stateful'),
    toolFailure('1', error, long),
  ]) {
    assert.doesNotMatch(bytes.toString(), /\\ud[89a-f]/i);
    assert.match(bytes.toString(), /x\ufffd…"/);
  }
});

test('a tool failure is a result with isError', () => {
  const message = asScanned(toolFailure('"a"', new GatewayError('TIMEOUT', 'late'), 'Error: late'));
  assert.deepEqual(JSON.parse(message.body.toString()), {
    content: [{ type: 'text', text: 'Error: late' }],
    isError: true,
    _meta: { 'trunkline/error': { code: 'TIMEOUT', outcome: 'UNKNOWN', sent: true, retryable: false } },
  });
});

test('addresses and folders are removed from texts of the servers’ side, and other text stays', () => {
  for (const [words, left] of [
    ['the command "/home/ada/bin/tool" does not exist', 'the command "tool" does not exist'],
    ['cannot enter ../private/place: denied', 'cannot enter place: denied'],
    ['connecting to https://user:pass@inner.example:8443/a?key=b failed', 'connecting to [address] failed'],
    ['spawn ~/x EACCES', 'spawn x EACCES'],
    ['and/or 1/2 of application/json, 2026-07-28', 'and/or 1/2 of application/json, 2026-07-28'],
    ["Server 's' is failed: exit code 1", "Server 's' is failed: exit code 1"],
  ] as const)
    assert.equal(withoutAddresses('NOT_SENT', words), left);
  assert.equal(withoutAddresses('INVALID_PARAMS', 'Unknown tool: /a/b'), 'Unknown tool: /a/b');
});

test('long words made of slashes take little time', () => {
  for (const words of ['/'.repeat(100_000), '/a'.repeat(100_000), `a${'/'.repeat(100_000)}`, 'a:/'.repeat(50_000)])
    assert.ok(withoutAddresses('UNKNOWN', words.slice(0, 1_000)).length <= 1_000);
});

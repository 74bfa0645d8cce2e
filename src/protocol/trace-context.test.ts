import assert from 'node:assert/strict';
import { test } from 'node:test';
import { request } from './compose.ts';
import { isScanFailure, scanMessage } from './scan.ts';
import { spanOf, traceOf, withTrace } from './trace-context.ts';

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

test('the trace of a request is written in place, and no other byte changes', () => {
  for (const [params, expected] of [
    [null, `{"_meta":{"traceparent":"${TRACE}"}}`],
    ['{}', `{"_meta":{"traceparent":"${TRACE}"}}`],
    ['{ "a":1.0 }', `{"_meta":{"traceparent":"${TRACE}"}, "a":1.0 }`],
    ['{"_meta":{"x":1.0,"traceparent":"old"},"a":2}', `{"_meta":{"x":1.0,"traceparent":"${TRACE}"},"a":2}`],
    ['{"_meta":7}', '{"_meta":7}'],
  ] as const) {
    const made = withTrace(request('tools/call', '1', params, 'stateful'), TRACE);
    assert.equal(made.body.toString(), expected);
    const scanned = scanMessage(made.bytes, 'stateful', 'strict');
    assert.ok(!isScanFailure(scanned));
    assert.equal(scanned.body.toString(), expected);
    assert.equal(traceOf(made), expected.includes(TRACE) ? TRACE : null);
  }
});

test('a span is named after what is called', () => {
  const named = (method: string) => spanOf(request(method, '1', '{"name":"n"}', 'stateful')).name;
  assert.deepEqual(['tools/call', 'prompts/get', 'tools/list'].map(named), [
    'tools/call n',
    'prompts/get n',
    'tools/list',
  ]);
  const long = request('resources/read', '1', JSON.stringify({ uri: 'x'.repeat(10_000) }), 'stateful');
  assert.equal(spanOf(long).attributes['mcp.resource.uri'], 'x'.repeat(1_024));
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WireHeaders } from './headers.ts';
import { type HeaderParam, paramHeaders, paramHeadersFault, scanHeaderParams } from './headers.ts';

function scan(inputSchema: unknown): ReturnType<typeof scanHeaderParams> {
  return scanHeaderParams(Buffer.from(JSON.stringify({ name: 't', inputSchema })));
}

function declared(inputSchema: unknown): readonly HeaderParam[] {
  const scanned = scan(inputSchema);
  assert.ok(scanned.ok, scanned.ok ? '' : scanned.reason);
  return scanned.declared;
}

const SCHEMA = {
  type: 'object',
  properties: {
    region: { type: 'string', 'x-mcp-header': 'Region' },
    count: { type: 'integer', 'x-mcp-header': 'Count' },
    loud: { type: 'boolean', 'x-mcp-header': 'Loud' },
    where: { type: 'object', properties: { city: { type: 'string', 'x-mcp-header': 'City' } } },
    'x-mcp-header': { type: 'string', default: { 'x-mcp-header': 'no annotation' } },
  },
};
const DECLARED = declared(SCHEMA);

function headersFor(args: string): string[] {
  const bytes = Buffer.from(args);
  return paramHeaders(DECLARED, bytes, { start: 0, end: bytes.length });
}

function fault(args: string | null, headers: WireHeaders): string | null {
  const bytes = Buffer.from(args ?? '');
  return paramHeadersFault(DECLARED, headers, bytes, args === null ? null : { start: 0, end: bytes.length });
}

test('proto:H6 annotations are found along properties only', () => {
  assert.deepEqual(DECLARED, [
    { header: 'Region', path: ['region'], type: 'string' },
    { header: 'Count', path: ['count'], type: 'integer' },
    { header: 'Loud', path: ['loud'], type: 'boolean' },
    { header: 'City', path: ['where', 'city'], type: 'string' },
  ]);
  assert.deepEqual(declared({ type: 'object', properties: { a: { type: 'string' } } }), []);
  assert.deepEqual(scanHeaderParams(Buffer.from('{"name":"t"}')), { ok: true, declared: [] });
  const escaped = '{"inputSchema":{"properties":{"a":{"type":"string","x\\u002dmcp-header":"A"}}}}';
  assert.deepEqual(scanHeaderParams(Buffer.from(escaped)), {
    ok: true,
    declared: [{ header: 'A', path: ['a'], type: 'string' }],
  });
});

test('proto:H6 a tool with an invalid annotation is reported', () => {
  const one = (schema: unknown) => ({ type: 'object', properties: { a: schema } });
  const annotated = { type: 'string', 'x-mcp-header': 'A' };
  const invalid: unknown[] = [
    one({ type: 'string', 'x-mcp-header': '' }),
    one({ type: 'string', 'x-mcp-header': 5 }),
    one({ type: 'object', 'x-mcp-header': 'A' }),
    one({ type: 'array', 'x-mcp-header': 'A' }),
    one({ type: 'null', 'x-mcp-header': 'A' }),
    one({ type: 'number', 'x-mcp-header': 'A' }),
    one({ 'x-mcp-header': 'A' }),
    ...['a b', 'a:b', 'é', 'a\r\nb', 'a\u0001'].map((name) => one({ type: 'string', 'x-mcp-header': name })),
    { properties: { a: annotated, b: annotated } },
    { properties: { a: annotated, b: { type: 'string', 'x-mcp-header': 'a' } } },
    { ...annotated },
    one({ type: 'array', items: annotated }),
    { oneOf: [{ properties: { a: annotated } }] },
    { if: { properties: { a: annotated } } },
    { $defs: { x: annotated } },
    { patternProperties: { x: annotated } },
    one({ additionalProperties: annotated }),
  ];
  for (const schema of invalid) assert.equal(scan(schema).ok, false, JSON.stringify(schema));
  let deep: unknown = one(annotated);
  for (let i = 0; i < 100; i++) deep = one(deep);
  assert.equal(scan(deep).ok, false);
  const long = 'n'.repeat(1_000_000);
  const named = scan({ properties: { [long]: { type: 'number', 'x-mcp-header': 'A' } } });
  assert.ok(!named.ok && named.reason.length < 500, 'the reason has at most 200 characters of a name');
  const bottomless = `{"inputSchema":${'{"not":'.repeat(9_000)}{"x-mcp-header":"A"}${'}'.repeat(9_000)}}`;
  assert.equal(scanHeaderParams(Buffer.from(bottomless)).ok, false);
});

test('proto:H6 headers carry present values, and nothing for null and absent ones', () => {
  assert.deepEqual(headersFor('{"region":"us west","count":42,"loud":false,"where":{"city":"Zürich"}}'), [
    'Mcp-Param-Region',
    'us west',
    'Mcp-Param-Count',
    '42',
    'Mcp-Param-Loud',
    'false',
    'Mcp-Param-City',
    '=?base64?WsO8cmljaA==?=',
  ]);
  assert.deepEqual(headersFor('{"region":null,"count":{},"loud":[true],"where":3}'), []);
  assert.deepEqual(headersFor('{"count":42.0}'), ['Mcp-Param-Count', '42']);
  assert.deepEqual(headersFor('{"count":-0}'), ['Mcp-Param-Count', '0']);
  assert.deepEqual(headersFor('{"region":"a\\r\\nX: y"}'), ['Mcp-Param-Region', '=?base64?YQ0KWDogeQ==?=']);
  assert.deepEqual(paramHeaders(DECLARED, Buffer.alloc(0), null), []);
});

test('proto:H1 proto:H2 headers must agree with the body, which decides', () => {
  assert.equal(fault('{"region":"us"}', { 'mcp-param-region': ' us ' }), null);
  assert.equal(fault('{"region":"us"}', { 'mcp-param-region': '=?base64?dXM=?=' }), null);
  assert.equal(fault('{"region":"us"}', { 'mcp-param-region': 'us', 'mcp-param-unknown': 'x' }), null);
  assert.equal(fault('{"count":42}', { 'mcp-param-count': '42.0' }), null);
  assert.equal(fault('{"count":9007199254740993}', { 'mcp-param-count': '9007199254740993' }), null);
  assert.match(fault('{"count":9007199254740993}', { 'mcp-param-count': '9007199254740992' })!, /differs/);
  assert.equal(fault('{}', {}), null);
  assert.equal(fault(null, {}), null);
  assert.equal(fault('{"region":null}', {}), null);
  assert.match(fault('{"region":"us"}', {})!, /missing/);
  assert.match(fault('{"region":"us"}', { 'mcp-param-region': 'US' })!, /differs/);
  assert.match(fault('{"region":"us"}', { 'mcp-param-region': ['us', 'us'] })!, /differs/);
  assert.match(fault('{"count":42}', { 'mcp-param-count': '43' })!, /differs/);
  assert.match(fault('{"count":42}', { 'mcp-param-count': '0x2a' })!, /differs/);
  assert.match(fault('{"region":"us"}', { 'mcp-param-region': '=?base64?dXM?=' })!, /encoded/);
  assert.match(fault('{}', { 'mcp-param-region': 'us' })!, /no value/);
  assert.match(fault(null, { 'mcp-param-region': 'us' })!, /no value/);
  assert.match(fault('{"region":"us","x":1,"x":2,"region":"eu"}', { 'mcp-param-region': 'us' })!, /twice/);
});

test('proto:H6 a tool mirrors at most 32 members in total', () => {
  const of = (count: number, depth: number) => {
    const nested = (level: number, header: string): object =>
      level === 0
        ? { type: 'string', 'x-mcp-header': header }
        : { type: 'object', properties: { a: nested(level - 1, header) } };
    const properties = Object.fromEntries(
      Array.from({ length: count }, (_, i) => [`p${i}`, nested(depth - 1, `H${i}`)]),
    );
    return scanHeaderParams(Buffer.from(JSON.stringify({ name: 't', inputSchema: { type: 'object', properties } })));
  };
  for (const [count, depth] of [
    [32, 1],
    [8, 4],
    [1, 32],
  ] as const)
    assert.ok(of(count, depth).ok);
  for (const [count, depth] of [
    [33, 1],
    [11, 3],
    [1, 33],
  ] as const) {
    assert.deepEqual({ ...of(count, depth), reason: '' }, { ok: false, reason: '' });
  }
});

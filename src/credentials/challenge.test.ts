import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bearerChallenge, scopesOf } from './challenge.ts';

const NOTHING = { resourceMetadata: null, scope: null, error: null };

for (const [header, said] of [
  [null, NOTHING],
  ['', NOTHING],
  ['Bearer', NOTHING],
  ['Basic realm="x"', NOTHING],
  ['Bearer realm="x", scope="a b"', { ...NOTHING, scope: 'a b' }],
  ['bearer scope=read', { ...NOTHING, scope: 'read' }],
  ['Bearer scope=""', NOTHING],
  [
    'Bearer resource_metadata="https://a.example/x?y=1,2"',
    { ...NOTHING, resourceMetadata: 'https://a.example/x?y=1,2' },
  ],
  ['Basic realm="scope=\\"x\\", Bearer", Bearer scope="b"', { ...NOTHING, scope: 'b' }],
  ['Negotiate, Bearer error="insufficient_scope", scope="a"', { ...NOTHING, error: 'insufficient_scope', scope: 'a' }],
  ['Bearer scope="a", Basic realm="x", scope="no"', { ...NOTHING, scope: 'a' }],
  ['DPoP algs="ES256", error="use_dpop_nonce"', { ...NOTHING, error: 'use_dpop_nonce' }],
  ['Bearer scope="a\\"b"', { ...NOTHING, scope: 'a"b' }],
  [`Bearer scope="${'x'.repeat(9_000)}"`, NOTHING],
] as const) {
  test(`check:I1 a server that answers ${String(header).slice(0, 60)}`, () => {
    assert.deepEqual(bearerChallenge(header), said);
  });
}

test('scopes are a list without repetitions', () => {
  assert.deepEqual(scopesOf(' a b  a '), ['a', 'b']);
  assert.deepEqual(scopesOf(null), []);
});

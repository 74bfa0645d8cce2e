import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { UriTemplate } from './uri-template.ts';

const MATCHES: readonly (readonly [template: string, uri: string, matches: boolean])[] = [
  ['test://plain', 'test://plain', true],
  ['test://plain', 'test://plainer', false],
  ['test://t/{id}/data', 'test://t/123/data', true],
  ['test://t/{id}/data', 'test://t/1/2/data', false],
  ['test://t/{id}/data', 'test://t//data', true],
  ['test://t/{id}/data', 'test://t/123/dat', false],
  ['file:///{+path}', 'file:///a/b/c.txt', true],
  ['file:///{path}', 'file:///a/b', false],
  ['{+a}/x/{b}', 'p/x/q/x/r', true],
  ['{+a}/x/{b}', 'p/x/q/x/r/s', false],
  ['db://{table}{?limit,offset}', 'db://users', true],
  ['db://{table}{?limit,offset}', 'db://users?limit=1', true],
  ['db://{table}{?limit,offset}', 'db://users/1', false],
  ['doc://x{#part}', 'doc://x#chapter', true],
  ['doc://x{#part}', 'doc://xchapter', false],
  ['v{.version}', 'v.1.2', true],
  ['p{/seg*}', 'p/a/b', true],
  ['broken://{open', 'broken://{open', true],
];

for (const [template, uri, matches] of MATCHES) {
  test(`${template} ${matches ? 'matches' : 'does not match'} ${uri}`, () => {
    assert.equal(new UriTemplate(template).matches(uri), matches);
  });
}

test('every simple expansion of a template matches it', () => {
  const value = fc.string({ unit: fc.constantFrom('a', 'b', '.', '-', '%'), maxLength: 6 });
  const literal = fc.string({ unit: fc.constantFrom('a', '/', ':', '.'), maxLength: 4 });
  fc.assert(
    fc.property(fc.array(fc.tuple(literal, value), { maxLength: 5 }), literal, (parts, tail) => {
      const template = parts.map(([text], i) => `${text}{v${i}}`).join('') + tail;
      const uri = parts.map(([text, filled]) => text + filled).join('') + tail;
      assert.equal(new UriTemplate(template).matches(uri), true);
    }),
  );
});

test('a hostile template and URI cost length times parts, not more', () => {
  const template = new UriTemplate(`a://${'{+x}a'.repeat(30)}b`);
  const uri = `a://${'a'.repeat(4000)}`;
  // A backtracking matcher would not come back from this.
  assert.equal(template.matches(uri), false);
  assert.equal(new UriTemplate('a://{+x}').matches(`a://${'a'.repeat(9000)}`), false);
});

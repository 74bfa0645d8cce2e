import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { matchableTemplates, UriTemplate } from './uri-template.ts';

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

test('adjacent expressions match the same URIs as one by one, in the fewest passes', () => {
  const expressions = ['{a}', '{+a}', '{?a}', '{#a}', '{/a*}'];
  const text = fc.array(fc.constantFrom(...expressions, 'x', 'ab'), { maxLength: 8 });
  const uri = fc.string({ unit: fc.constantFrom('a', 'b', 'x', '/', '?', '#'), maxLength: 10 });
  fc.assert(
    fc.property(text, uri, (parts, tried) => {
      const template = new UriTemplate(parts.join(''));
      assert.equal(template.matches(tried), regExpOf(parts).test(tried));
      const literals = parts.filter((part) => !part.startsWith('{')).length;
      assert.ok(template.size <= literals + 3 * (literals + 1));
    }),
    { numRuns: 2_000 },
  );
});

/** A regular expression for what the parts of a short template match. */
function regExpOf(parts: readonly string[]): RegExp {
  const said: Record<string, string> = { '{a}': '[^/?#]*', '{+a}': '.*', '{?a}': '(?:\\?.*)?' };
  said['{#a}'] = '(?:#.*)?';
  said['{/a*}'] = '(?:/.*)?';
  return new RegExp(`^${parts.map((part) => said[part] ?? part).join('')}$`);
}

test('a hundred thousand expressions in a row are one part', () => {
  assert.equal(new UriTemplate('{a}'.repeat(100_000)).size, 1);
  assert.equal(new UriTemplate('{+a}{b}{?c}'.repeat(1_000)).size, 1);
});

test('a URI costs at most 2,048 passes over one server’s templates, however many it lists', () => {
  const many = Array.from({ length: 50_000 }, (_, i) => `{a}x${i}{b}`);
  const hostile = ['{a}'.repeat(100_000), `{a}${'x{a}'.repeat(64)}`, ...many];
  const matched = matchableTemplates(hostile);
  assert.ok(matched.length >= 600 && matched.length <= 1_000, String(matched.length));
  assert.ok(matched.reduce((sum, { size }) => sum + size, 0) <= 2_048);
  assert.ok(matched.every(({ size }) => size <= 64));
  const plain = Array.from({ length: 1_200 }, (_, i) => `file:///${i}`);
  assert.equal(matchableTemplates(plain).length, 1_000);
});

test('a literal that repeats itself costs one pass over the URI', () => {
  const literal = 'a'.repeat(2_000);
  const template = new UriTemplate(`{x}${literal}b{y}`);
  const begun = performance.now();
  for (let i = 0; i < 100; i++) assert.equal(template.matches('a'.repeat(4_000)), false);
  // A comparison at each position would need 800 million steps.
  assert.ok(performance.now() - begun < 500);
});

test('a hostile template and URI cost at most length times parts', () => {
  const template = new UriTemplate(`a://${'{+x}a'.repeat(30)}b`);
  const uri = `a://${'a'.repeat(4000)}`;
  // A backtracking matcher would not finish.
  assert.equal(template.matches(uri), false);
  assert.equal(new UriTemplate('a://{+x}').matches(`a://${'a'.repeat(9000)}`), false);
});

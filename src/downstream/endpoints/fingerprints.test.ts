import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fingerprint } from '../../protocol/canonical.ts';
import { Fingerprints } from './fingerprints.ts';

test('cached fingerprints equal computed ones, in any order and number of texts', () => {
  const fingerprints = new Fingerprints();
  const texts = ['{}', ' { } ', '{"a":1,"b":{}}', '{"b":{},"a":1}', `{"x":"${'x'.repeat(10_000)}"}`];
  for (let i = 0; i < 2_000; i++) texts.push(`{"n":${i}}`);
  for (const text of [...texts, ...texts.toReversed(), ...texts.slice(0, 5)]) {
    assert.equal(fingerprints.of(text), fingerprint(text));
  }
  assert.equal(fingerprints.of(texts[2]!), fingerprints.of(texts[3]!));
  assert.notEqual(fingerprints.of('{"n":1}'), fingerprints.of('{"n":1.0}'));
});

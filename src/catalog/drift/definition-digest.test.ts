import assert from 'node:assert/strict';
import { test } from 'node:test';
import { definitionDigest } from './definition-digest.ts';

const digest = (json: string) => definitionDigest(Buffer.from(json));

test('check:G4 the pin covers the meaning of a definition, not its spelling', () => {
  const one = digest('{"name":"a","description":"é","inputSchema":{"type":"object","maximum":1}}');
  assert.equal(
    one,
    digest('{ "inputSchema" : {"maximum":1.0,"type":"object"}, "description":"\\u00e9","name":"\\u0061"}'),
  );
  assert.match(one, /^[0-9a-f]{64}$/);
});

test('check:G4 name, title, description, schemas, annotations, icons and unknown members are pinned', () => {
  const base = '"name":"a","title":"A","description":"d","inputSchema":{},"outputSchema":{},"annotations":{},"x":1';
  const before = digest(`{${base}}`);
  for (const [from, to] of [
    ['"name":"a"', '"name":"b"'],
    ['"title":"A"', '"title":"B"'],
    ['"description":"d"', '"description":"d "'],
    ['"inputSchema":{}', '"inputSchema":{"type":"object"}'],
    ['"outputSchema":{}', '"outputSchema":{"type":"object"}'],
    ['"annotations":{}', '"annotations":{"readOnlyHint":true}'],
    ['"x":1', '"x":12345678901234567891'],
    ['"x":1', '"x":1,"icons":[{"src":"data:,"}]'],
  ] as const) {
    assert.notEqual(digest(`{${base.replace(from, to)}}`), before, to);
  }
  assert.notEqual(digest('{"x":12345678901234567890}'), digest('{"x":12345678901234567891}'));
});

test('check:G4 _meta and execution are not pinned: they differ from list to list and from era to era', () => {
  const before = digest('{"name":"a"}');
  assert.equal(digest('{"_meta":{"t":1},"name":"a","execution":{"taskSupport":"optional"}}'), before);
  assert.notEqual(digest('{"name":"a","inputSchema":{"properties":{"_meta":{}}}}'), digest('{"name":"a"}'));
});

test('check:G4 a duplicate member cannot change unnoticed, whichever of them a reader takes', () => {
  const one = digest('{"name":"a","description":"good","description":"x"}');
  assert.notEqual(one, digest('{"name":"a","description":"evil","description":"x"}'));
});

test('a definition of any size and depth has a digest', () => {
  const deep = `{"a":${'['.repeat(9_000)}${']'.repeat(9_000)}}`;
  assert.match(digest(deep), /^[0-9a-f]{64}$/);
  const large = `{"a":"${'x'.repeat(600_000)}"}`;
  assert.notEqual(digest(large), digest(large.replace('xx', 'xy')));
});

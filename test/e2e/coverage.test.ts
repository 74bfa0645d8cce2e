import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { citations } from './citations.ts';
import { REQUIREMENTS } from './requirements.ts';

const known = new Set(REQUIREMENTS.map((requirement) => requirement.id));
const cited = citations();
const recorded = JSON.parse(readFileSync(resolve(import.meta.dirname, 'covered.json'), 'utf8')) as readonly string[];

test('every id that a test cites is a requirement', () => {
  const unknown = [...cited].filter(([id]) => !known.has(id)).map(([id, files]) => `${id} in ${files.join(', ')}`);
  assert.deepEqual(unknown, []);
});

test('no requirement is listed twice', () => {
  assert.equal(known.size, REQUIREMENTS.length);
  assert.ok(known.size > 300);
});

test('a requirement that was covered still is', () => {
  const lost = recorded.filter((id) => !cited.has(id));
  assert.deepEqual(lost, [], 'restore the test, or remove the id from covered.json and say why in the commit');
});

test('newly covered requirements are recorded', () => {
  const unrecorded = [...cited.keys()].filter((id) => !recorded.includes(id));
  assert.deepEqual(unrecorded, [], 'run: npm run generate');
});

test('information: the requirements that no test cites yet', (context) => {
  for (const capability of ['A', 'B', 'C', 'D', '-']) {
    const open = REQUIREMENTS.filter(
      (requirement) => requirement.capability === capability && !cited.has(requirement.id),
    );
    if (open.length > 0)
      context.diagnostic(`${capability}: ${open.length} not cited: ${open.map((r) => r.id).join(' ')}`);
  }
  assert.ok(cited.size > 0);
});

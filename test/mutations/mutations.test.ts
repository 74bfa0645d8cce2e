import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { REQUIREMENTS } from '../e2e/requirements.ts';
import { MUTATIONS, mutated } from './mutations.ts';

const ROOT = resolve(import.meta.dirname, '../..');

test('every mutation still applies to the product: its text occurs exactly once', () => {
  const stale = MUTATIONS.filter((mutation) => {
    return mutated(mutation, readFileSync(resolve(ROOT, mutation.file), 'utf8')) === null;
  });
  assert.deepEqual(
    stale.map(({ row, file }) => `${row} in ${file}`),
    [],
    'adapt the mutation to the changed product and run: npm run mutate -- <row>',
  );
});

test('every requirement has a mutation, and every mutation a requirement', () => {
  const rows = REQUIREMENTS.map(({ id }) => id).filter((id) => /^S[0-4]\.\d+$/.test(id));
  const taken = new Set(MUTATIONS.map(({ row }) => row));
  assert.equal(rows.length, 118);
  assert.deepEqual([...taken].sort(), rows.sort());
});

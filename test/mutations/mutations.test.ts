import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
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

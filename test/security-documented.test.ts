import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';

const ROOT = resolve(import.meta.dirname, '..');

test('every guarantee of SECURITY.md is cited by a test, and no test cites another', () => {
  const page = readFileSync(resolve(ROOT, 'SECURITY.md'), 'utf8');
  const promised = [...page.matchAll(/^(\d+)\. /gm)].map(([, id]) => Number(id));
  assert.deepEqual(
    promised,
    promised.map((_, i) => i + 1),
  );
  const cited = new Set<number>();
  for (const file of globSync('{src,test}/**/*.test.ts', { cwd: ROOT })) {
    const text = readFileSync(resolve(ROOT, file), 'utf8');
    for (const [, title] of text.matchAll(/^\s*test\(\s*(['`].*)$/gm)) {
      for (const [, id] of title!.matchAll(/security:(\d+)/g)) cited.add(Number(id));
    }
  }
  assert.deepEqual(
    [...cited].sort((a, b) => a - b),
    promised,
  );
});

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const cache = mkdtempSync(join(tmpdir(), 'trunkline-made-'));
after(() => rmSync(cache, { recursive: true }));
process.env['XDG_CACHE_HOME'] = cache;
const { madeOnce } = await import('./made-once.ts');

test('a failed build fails for all callers that waited for it; the next caller builds again', async () => {
  let builds = 0;
  const fails = () =>
    madeOnce('tool', async () => {
      builds++;
      throw new Error('no compiler');
    });
  const ends = await Promise.allSettled([fails(), fails(), fails()]);
  for (const end of ends) assert.match(end.status === 'rejected' ? String(end.reason) : 'made', /no compiler/);
  assert.equal(builds, 1);
  const folder = await madeOnce('tool', async (scratch) => writeFileSync(join(scratch, 'program'), ''));
  assert.deepEqual(readdirSync(folder), ['program']);
  assert.equal(await madeOnce('tool', () => assert.fail('the tool is built already')), folder);
});

test('the next build removes the files that a killed build left', async () => {
  const left = join(cache, 'trunkline-tests', 'other-a1B2c3');
  mkdirSync(left, { recursive: true });
  await madeOnce('other', async () => {});
  assert.equal(existsSync(left), false);
});

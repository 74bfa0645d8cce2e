import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { bytesOf, Links } from './links.ts';

function place(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-links-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'no-folder'), '');
  return {
    links: new Links(join(folder, 'data')),
    file: join(folder, 'mcp.json'),
    bad: join(folder, 'no-folder/a.json'),
  };
}

const AS = { name: 'tl', url: 'http://127.0.0.1:4270/mcp' };

test('a file that cannot be written leaves no record of a link', (t) => {
  const { links, bad } = place(t);
  assert.throws(() => links.write('cursor', bad, null, '{}', AS), { code: /^(?:ENOTDIR|EEXIST)$/ });
  assert.equal(links.get('cursor'), null);
});

test('a file that cannot be written leaves the earlier record, which restores the file', (t) => {
  const { links, file, bad } = place(t);
  writeFileSync(file, 'before');
  links.write('cursor', file, bytesOf(file), 'linked', AS);
  assert.throws(() => links.write('cursor', bad, null, '{}', { ...AS, name: 'other' }));
  assert.equal(links.get('cursor')?.name, 'tl');
  assert.ok(links.restore('cursor'));
  assert.equal(String(bytesOf(file)), 'before');
});

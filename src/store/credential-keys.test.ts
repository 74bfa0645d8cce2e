import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemRandom } from '../model/random.ts';
import { CredentialKeys } from './credential-keys.ts';
import { FolderUnusable } from './data-folder.ts';

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-keys-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const keysAt = (path: string) => new CredentialKeys(path, () => systemRandom.hex(32));
const hex = ({ keys }: CredentialKeys): string[] => keys.map((key) => key.toString('hex'));

test('the key is created once, with mode 600; every open instance reads a rotated key', (t) => {
  const path = join(folderOf(t), 'credentials.key');
  const [one, two] = [keysAt(path), keysAt(path)];
  const [first] = hex(one);
  assert.deepEqual([hex(two), statSync(path).mode & 0o777], [[first], 0o600]);
  one.beginRotation();
  const [second, ...old] = hex(two);
  assert.notEqual(second, first);
  assert.deepEqual(old, [first]);
  // As after a crash: the next rotation keeps every key that may have sealed a record.
  keysAt(path).beginRotation();
  assert.deepEqual(hex(two).slice(1), [second, first]);
  one.finishRotation();
  assert.equal(hex(two).length, 1);
  assert.ok(![first, second].includes(hex(two)[0]));
  assert.deepEqual([statSync(path).mode & 0o777, readdirSync(join(path, '..'))], [0o600, ['credentials.key']]);
});

test('a damaged key is not replaced by another', (t) => {
  const path = join(folderOf(t), 'credentials.key');
  for (const text of ['', 'nothing\n', `${'0'.repeat(64)}\nx\n`]) {
    writeFileSync(path, text);
    assert.throws(
      () => keysAt(path).keys,
      (error) => error instanceof FolderUnusable && /put the file back/.test(error.remedy),
    );
    assert.equal(readFileSync(path, 'utf8'), text);
  }
  assert.ok(existsSync(path));
});

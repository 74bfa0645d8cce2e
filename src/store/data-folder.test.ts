import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { DataFolder } from './data-folder.ts';

let path = '';
beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), 'tl-folder-'));
});
afterEach(() => rmSync(path, { recursive: true }));

test('a damaged lock is emptied, taken, and works again', () => {
  for (const damage of ['nonsense', 'x'.repeat(8192), `SQLite format 3\0${'\xff'.repeat(4096)}`]) {
    writeFileSync(join(path, 'lock.db'), damage, 'latin1');
    const mine = new DataFolder(path);
    assert.equal(mine.instance(), null);
    assert.equal(mine.acquire(), true, damage.slice(0, 20));
    assert.equal(new DataFolder(path).acquire(), false);
    mine.release();
    const other = new DataFolder(path);
    assert.equal(other.acquire(), true);
    other.release();
  }
});

test('a folder that was refused to a second gateway of the process stays locked for other processes', () => {
  const mine = new DataFolder(path);
  assert.equal(mine.acquire(), true);
  assert.equal(new DataFolder(path).acquire(), false);
  const source = new URL('./data-folder.ts', import.meta.url);
  const program = `import { DataFolder } from '${source}'; console.log(new DataFolder(process.argv[1]).acquire())`;
  const args = ['--input-type=module', '-e', program, path];
  assert.equal(execFileSync(process.execPath, args, { encoding: 'utf8', stdio: 'pipe' }), 'false\n');
  mine.release();
  assert.equal(execFileSync(process.execPath, args, { encoding: 'utf8', stdio: 'pipe' }), 'true\n');
});

test('an unusable lock is reported with its path and the remedy', () => {
  mkdirSync(join(path, 'lock.db'));
  assert.throws(() => new DataFolder(path).acquire(), {
    message: /lock\.db cannot be used: /,
    remedy: /^make it writable or remove it/,
  });
});

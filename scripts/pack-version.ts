/**
 * Packs the built gateway of one commit into a file for test/cluster/rolling-upgrade.test.ts, where it runs beside the
 * present one: `node scripts/pack-version.ts <commit>`. The same commit gives the same bytes. Packages are not in it.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

const ROOT = resolve(import.meta.dirname, '..');
const [name] = process.argv.slice(2);
if (name === undefined) throw new Error('which commit?');

const commit = execFileSync('git', ['rev-parse', `${name}^{commit}`], { cwd: ROOT, encoding: 'utf8' }).trim();
const folder = mkdtempSync(join(tmpdir(), 'trunkline-version-'));
try {
  const archive = execFileSync('git', ['archive', commit], { cwd: ROOT, maxBuffer: 1 << 30 });
  execFileSync('tar', ['x', '-C', folder], { input: archive });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  execFileSync(process.execPath, ['scripts/build.ts'], { cwd: folder, stdio: 'inherit' });
  const paths: string[] = [];
  for await (const path of glob(['package.json', 'bin/*.js', 'dist/**/*.js', 'schema/*'], { cwd: folder }))
    paths.push(path);
  const files = Object.fromEntries(paths.sort().map((path) => [path, readFileSync(join(folder, path), 'utf8')]));
  const text = Buffer.from(JSON.stringify({ commit, files }));
  const packed = brotliCompressSync(text, {
    params: { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: text.length },
  });
  const target = join(ROOT, 'test/fixtures/versions', `${commit.slice(0, 12)}.json.br`);
  writeFileSync(target, packed);
  console.log(`${target}: ${paths.length} files, ${packed.length} bytes`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';

const FIXTURES = resolve(import.meta.dirname, '../fixtures/versions');
/** In this folder, unpacked versions find the packages of this tree. */
const CACHE = resolve(import.meta.dirname, '../../node_modules/.cache/trunkline-versions');

/** The newest commit whose nodes this tree has to work with. How it is packed: scripts/pack-version.ts. */
export const PREVIOUS = 'e6b49c8d4112';

/**
 * The gateway as it was built from a commit: the path of its program, for `GatewayOptions.program`. `change` edits its
 * files, to make a version that does not exist yet.
 */
export function unpackVersion(commit: string, change: (path: string, text: string) => string = (_, text) => text) {
  const packed = readFileSync(join(FIXTURES, `${commit}.json.br`));
  const { files } = JSON.parse(brotliDecompressSync(packed).toString()) as { files: Record<string, string> };
  const changed = Object.entries(files).map(([path, text]) => [path, change(path, text)] as const);
  const digest = createHash('sha256').update(JSON.stringify(changed)).digest('hex').slice(0, 16);
  const folder = join(CACHE, `${commit}-${digest}`);
  const program = join(folder, 'bin/trunkline.js');
  if (existsSync(folder)) return program;
  mkdirSync(CACHE, { recursive: true });
  const scratch = mkdtempSync(join(CACHE, 'unpacking-'));
  for (const [path, text] of changed) {
    mkdirSync(dirname(join(scratch, path)), { recursive: true });
    writeFileSync(join(scratch, path), text);
  }
  try {
    renameSync(scratch, folder);
  } catch (error) {
    // Another process has unpacked the same version meanwhile.
    if (!existsSync(folder)) throw error;
    rmSync(scratch, { recursive: true });
  }
  return program;
}

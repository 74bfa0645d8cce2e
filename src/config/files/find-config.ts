import { existsSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const NAMES = [
  'trunkline.yaml',
  'trunkline.yml',
  'trunkline.json',
  'trunkline.jsonc',
  'trunkline.toml',
  '.mcp.json',
  '.vscode/mcp.json',
  '.cursor/mcp.json',
];

/** The nearest configuration file, from `cwd` upwards to the repository's root or home; null when there is none. */
export function findConfig(cwd: string, home: string = homedir()): string | null {
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    for (const name of NAMES) {
      const file = join(folder, name);
      if (isFile(file)) return file;
    }
    const isTop = folder === home || folder === dirname(folder) || existsSync(join(folder, '.git'));
    if (isTop) return null;
  }
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

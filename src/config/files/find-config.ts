import { existsSync, readFileSync, statSync } from 'node:fs';
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

/**
 * The nearest configuration file, from `cwd` upwards to the repository's root or home, else Claude Code's own where it has
 * servers for this folder; null when there is none.
 */
export function findConfig(cwd: string, home: string = homedir()): string | null {
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    for (const name of NAMES) {
      const file = join(folder, name);
      if (isFile(file)) return file;
    }
    const isTop = folder === home || folder === dirname(folder) || existsSync(join(folder, '.git'));
    if (isTop) return ofClaudeCode(resolve(cwd), home);
  }
}

/** Claude Code keeps servers of single folders in its own file: the last that is looked at. */
function ofClaudeCode(cwd: string, home: string): string | null {
  const file = join(home, '.claude.json');
  try {
    const { projects = {} } = JSON.parse(readFileSync(file, 'utf8')) as { projects?: Record<string, ClaudeProject> };
    const covers = ([folder, { mcpServers = {} }]: [string, ClaudeProject]): boolean =>
      `${cwd}/`.startsWith(`${folder}/`) && Object.keys(mcpServers).length > 0;
    return Object.entries(projects).some(covers) ? file : null;
  } catch {
    return null;
  }
}

interface ClaudeProject {
  readonly mcpServers?: object;
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

import { existsSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';

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
 * The nearest configuration file, from `cwd` upwards to the repository's root or home, else Claude Code's own file if it has
 * servers for this folder; null without any.
 */
export function findConfig(cwd: string, home: string = homedir()): string | null {
  for (const folder of foldersUp(cwd, home)) {
    for (const name of NAMES) {
      const file = join(folder, name);
      if (isFile(file)) return file;
    }
  }
  const ofClaude = join(home, CLAUDE);
  return claudeProject(ofClaude, resolve(cwd)) === null ? null : ofClaude;
}

/** The folders to search for a configuration: this one and its parents, up to the repository's root or home. */
export function foldersUp(cwd: string, home: string = homedir()): readonly string[] {
  const folders: string[] = [];
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    folders.push(folder);
    if (folder === home || folder === dirname(folder) || existsSync(join(folder, '.git'))) return folders;
  }
}

const CLAUDE = '.claude.json';

/** The nearest folder for which Claude Code's own file has servers; null for other files. */
export function claudeProject(file: string, cwd: string): string | null {
  if (basename(file) !== CLAUDE) return null;
  try {
    const { projects = {} } = JSON.parse(readFileSync(file, 'utf8')) as { projects?: Record<string, ClaudeProject> };
    const covering = Object.entries(projects).filter(
      ([folder, { mcpServers = {} }]) => `${cwd}/`.startsWith(`${folder}/`) && Object.keys(mcpServers).length > 0,
    );
    return (
      covering
        .map(([folder]) => folder)
        .sort()
        .at(-1) ?? null
    );
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

import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve, sep } from 'node:path';

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

/** The nearest folder in Claude Code's own file; null if it has no servers there, and for other files. */
export function claudeProject(file: string, cwd: string): string | null {
  if (basename(file) !== CLAUDE) return null;
  try {
    const { projects = {} } = JSON.parse(readFileSync(file, 'utf8')) as { projects?: Record<string, ClaudeProject> };
    const nearest = nearestProject(Object.keys(projects), cwd);
    const { mcpServers = {} } = nearest === null ? {} : projects[nearest]!;
    return Object.keys(mcpServers).length > 0 ? nearest : null;
  } catch {
    return null;
  }
}

/** Of these folders the nearest that is `cwd` or above it, compared with `cwd` as given and with its real path. */
export function nearestProject(folders: readonly string[], cwd: string): string | null {
  const places = [cwd, existsSync(cwd) ? realpathSync(cwd) : cwd].map((place) => place + sep);
  const covers = (folder: string): boolean =>
    folder !== '' && places.some((place) => place.startsWith(folder.endsWith(sep) ? folder : folder + sep));
  return folders.filter(covers).sort((a, b) => b.length - a.length)[0] ?? null;
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

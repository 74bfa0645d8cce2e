import { homedir } from 'node:os';
import { resolve } from 'node:path';

/** The path with the home folder for its leading `~/`, which no shell has expanded; `~user` stays as it is. */
export function fromHome(path: string, env: Readonly<Record<string, string | undefined>>): string {
  return path === '~' || path.startsWith('~/') ? resolve(env['HOME'] || homedir(), path.slice(2)) : path;
}

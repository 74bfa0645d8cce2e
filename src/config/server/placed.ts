import { homedir } from 'node:os';
import { isAbsolute, resolve } from 'node:path';

export interface PlaceContext {
  /** Folder that relative paths start from. */
  readonly folder: string;
  readonly home: string | undefined;
}

/** A path of a configuration: `~/x` from home, relative ones from the configuration's folder. */
export function placed(path: string, { folder, home }: PlaceContext): string {
  if (path === '~' || path.startsWith('~/')) return resolve(home ?? homedir(), path.slice(2));
  return isAbsolute(path) ? path : resolve(folder, path);
}

/** The same for a program: a bare name is left to the PATH. */
export function placedCommand(command: string, context: PlaceContext): string {
  return /[/\\]/.test(command) || command === '~' ? placed(command, context) : command;
}

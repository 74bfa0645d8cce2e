import { access, constants, stat } from 'node:fs/promises';
import { delimiter, extname, isAbsolute, resolve } from 'node:path';
import { GatewayError } from '../../model/gateway-error.ts';
import { launcherOf } from '../../model/launchers.ts';
import type { StdioSpec, TransportSpec } from '../../model/server.ts';
import { messageOf } from '../../model/thrown.ts';

/** A server that cannot be started until its definition is corrected or the named program is installed. */
export class Misconfigured extends GatewayError {
  constructor(message: string, server: string) {
    super('NOT_SENT', message, { server });
  }
}

/** Whether a local server's command downloads its program from a registry before it runs it. */
export function fetchesProgram(transport: TransportSpec): boolean {
  if (transport.type !== 'stdio') return false;
  const { fetches = [] } = launcherOf(transport.command) ?? {};
  const word = transport.args.find((argument) => !argument.startsWith('-'));
  return fetches === true || fetches.includes(word ?? '');
}

/** Extensions that are tried for a name without one: plain `npx`, next to `npx.cmd`, is a script for other systems. */
const WINDOWS_PROGRAMS = ['.com', '.exe', '.cmd', '.bat'];
const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';

/**
 * Resolves the executable once, with the child's own PATH and working folder, so that the checked file is the one that is
 * started. Symbolic links are kept, because virtual environments and version managers depend on them. Rejects with GatewayError
 * NOT_SENT; the message says what to do.
 */
export async function resolveCommand(
  server: string,
  spec: Pick<StdioSpec, 'command' | 'cwd'>,
  environment: Readonly<Record<string, string>>,
  platform = process.platform,
): Promise<string> {
  const { command, cwd } = spec;
  await checkFolder(server, cwd);
  if (command === '') throw misconfigured(server, 'its "command" is empty');
  const isWindows = platform === 'win32';
  if (command.includes('/')) {
    const file = resolve(cwd, command);
    const found = await look(file);
    if (found === 'executable') return file;
    throw found === 'missing' ? missing(server, command) : unusable(server, file, found);
  }
  let refused: string | null = null;
  // On Windows the variable may be spelled `Path`; `process.env` ignores case there.
  const path = environment['PATH'] || (isWindows && process.env['PATH']) || DEFAULT_PATH;
  const names = isWindows && extname(command) === '' ? WINDOWS_PROGRAMS.map((end) => command + end) : [command];
  for (const folder of path.split(delimiter)) {
    for (const name of names) {
      const file = resolve(cwd, folder, name);
      const found = await look(file);
      if (found === 'executable') return file;
      if (found === 'forbidden') refused ??= file;
    }
  }
  throw refused === null ? missing(server, command) : unusable(server, refused, 'forbidden');
}

/** The error for a failed start: no call was sent. */
export function startFailure(server: string, reason: string, cause?: unknown): GatewayError {
  return new GatewayError('NOT_SENT', `Cannot start the server ${server}: ${reason}.`, { server, cause });
}

/** The same if the definition, or what it names, has to be corrected first. */
export function misconfigured(server: string, reason: string): GatewayError {
  return new Misconfigured(`Cannot start the server ${server}: ${reason}.`, server);
}

/** Messages for the system's errors of `spawn`. The file itself was found before. */
const NO_PROCESS = 'the system allows no further process (process limit or memory)';
const NO_FILES = 'the system allows no further open files (ulimit -n)';
const NOT_ALLOWED = 'FILE may not be executed by this user';
const SPAWN_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'FILE names an interpreter in its first line that does not exist; install it, or correct that line',
  EACCES: NOT_ALLOWED,
  EPERM: NOT_ALLOWED,
  ENOEXEC: 'FILE is neither a program nor a script with a #! line',
  EAGAIN: NO_PROCESS,
  ENOMEM: NO_PROCESS,
  EMFILE: NO_FILES,
  ENFILE: NO_FILES,
  E2BIG: 'its arguments and environment are too long',
};

export function spawnFailure(server: string, file: string, cause: unknown): GatewayError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const words = SPAWN_ERRORS[code]?.replace('FILE', () => file);
  return startFailure(server, words ?? messageOf(cause), cause);
}

async function checkFolder(server: string, cwd: string): Promise<void> {
  if (!isAbsolute(cwd)) throw misconfigured(server, `its working folder "${cwd}" is not an absolute path`);
  const found = await stat(cwd).catch(() => null);
  if (found === null)
    throw misconfigured(server, `its working folder ${cwd} does not exist; create it or correct "cwd"`);
  if (!found.isDirectory()) throw misconfigured(server, `its working folder ${cwd} is not a folder; correct "cwd"`);
}

/** `unreachable`: this user may not search a folder of the path, so the file is unknown. */
type Found = 'executable' | 'folder' | 'forbidden' | 'unreachable' | 'missing';

async function look(file: string): Promise<Found> {
  try {
    if ((await stat(file)).isDirectory()) return 'folder';
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EACCES' ? 'unreachable' : 'missing';
  }
  return access(file, constants.X_OK).then(
    () => 'executable',
    () => 'forbidden',
  );
}

function missing(server: string, command: string): GatewayError {
  if (/\s/.test(command)) {
    return misconfigured(server, `there is no command "${command}"; arguments belong into "args", one by one`);
  }
  // The most common first failure is a launcher that is not installed.
  const { comesWith: origin } = launcherOf(command) ?? {};
  const advice = origin === undefined ? 'install it or give its full path in "command"' : `it comes with ${origin}`;
  const where = command.includes('/') ? 'does not exist' : 'is not on the PATH';
  return misconfigured(server, `the command "${command}" ${where}; ${advice}`);
}

const UNUSABLE = {
  folder: (file: string) => `the command ${file} is a folder; name the program in it`,
  unreachable: (file: string) => `this user may not search a folder on the path to ${file}; correct its permissions`,
  forbidden: (file: string) => `${file} is not executable; run "chmod +x" on it or start it by its interpreter`,
};

function unusable(server: string, file: string, found: keyof typeof UNUSABLE): GatewayError {
  return misconfigured(server, UNUSABLE[found](file));
}

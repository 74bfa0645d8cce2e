import { readFile } from 'node:fs/promises';
import type { RunAs } from '../../model/server.ts';
import { resolveCommand } from './command.ts';
import { Misconfigured } from './misconfigured.ts';

/** A user as the system knows it. */
export interface SystemUser {
  readonly uid: number;
  readonly gid: number;
  /** Null for a number that has no entry. */
  readonly name: string | null;
  readonly home: string;
}

/** How a process is started as somebody else: through which program, as whom, with which variables. */
export interface Disguise {
  readonly file: string;
  readonly args: readonly string[];
  readonly identity: { readonly uid: number; readonly gid: number };
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * Puts a local server under another user, whose processes are counted (F41): one that forks without end meets the limit
 * of that user, and not the system's. The limit holds for all processes and threads of the user together.
 */
export async function disguised(
  server: string,
  runAs: RunAs,
  launch: { readonly file: string; readonly args: readonly string[] },
): Promise<Disguise> {
  if (process.getuid?.() !== 0) {
    throw new Misconfigured(
      `Cannot start the server ${server}: "runAs" needs that the gateway runs as root; leave it out, or start the server in a container.`,
      server,
    );
  }
  const { uid, gid, name, home } = await systemUser(server, runAs.user);
  const identity = { uid, gid };
  const environment = { HOME: home, ...(name === null ? {} : { USER: name }) };
  if (runAs.processes === null) return { ...launch, identity, environment };
  const spec = { command: 'prlimit', cwd: '/' };
  const file = await resolveCommand(server, spec, { PATH: process.env['PATH'] ?? '' });
  const limit = `--nproc=${runAs.processes}:${runAs.processes}`;
  return { file, args: [limit, '--', launch.file, ...launch.args], identity, environment };
}

async function systemUser(server: string, user: string): Promise<SystemUser> {
  const found = findUser(await readFile('/etc/passwd', 'utf8').catch(() => ''), user);
  if (found === null) {
    throw new Misconfigured(`Cannot start the server ${server}: there is no user "${user}" on this machine.`, server);
  }
  return found;
}

/** A number needs no entry: its group is then of the same number, and its home the root folder. */
export function findUser(passwd: string, user: string): SystemUser | null {
  const column = /^\d+$/.test(user) ? 2 : 0;
  for (const line of passwd.split('\n')) {
    const parts = line.split(':');
    if (parts[column] !== user || parts.length < 7) continue;
    return { uid: Number(parts[2]), gid: Number(parts[3]), name: parts[0]!, home: parts[5]! };
  }
  return column === 0 ? null : { uid: Number(user), gid: Number(user), name: null, home: '/' };
}

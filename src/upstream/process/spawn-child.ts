import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fewDescriptorsLeft } from '../../http/descriptor-limit.ts';
import { revealed } from '../../model/secret.ts';
import type { RunAs, StdioSpec } from '../../model/server.ts';
import { misconfigured, resolveCommand, spawnFailure, startFailure } from './command.ts';
import { childEnvironment } from './environment.ts';
import type { ProcessGuard } from './reaper.ts';

let taken = false;
const waiting: (() => void)[] = [];

/**
 * Null when a process may be started now, else the wait for that: one is started in each turn of the event loop of this
 * process, for whichever server. The system takes milliseconds for each, and calls to other servers go on in between.
 */
export function spawnTurn(): Promise<void> | null {
  if (taken) return new Promise((resolve) => waiting.push(resolve));
  taken = true;
  setImmediate(next);
  return null;
}

function next(): void {
  const first = waiting.shift();
  if (first === undefined) {
    taken = false;
    return;
  }
  setImmediate(next);
  first();
}

/** A user as the system knows it. */
interface SystemUser {
  readonly uid: number;
  readonly gid: number;
  /** Null for a number that has no entry. */
  readonly name: string | null;
  readonly home: string;
}

/** What is started: the program itself, or what starts it as another user. */
interface LaunchedProgram {
  readonly file: string;
  readonly args: readonly string[];
  readonly identity?: { readonly uid: number; readonly gid: number };
  readonly environment?: Readonly<Record<string, string>>;
}

/**
 * Puts a local server under another user, whose processes are counted (F41): one that forks without end meets the limit
 * of that user, and not the system's. The limit holds for all processes and threads of the user together.
 */
async function runAsLaunch(
  server: string,
  { user, processes }: RunAs,
  program: LaunchedProgram,
): Promise<LaunchedProgram> {
  if (process.getuid?.() !== 0) {
    const words = '"runAs" needs that the gateway runs as root; leave it out, or start the server in a container';
    throw misconfigured(server, words);
  }
  const found = findUser(await readFile('/etc/passwd', 'utf8').catch(() => ''), user);
  if (found === null) throw misconfigured(server, `there is no user "${user}" on this machine`);
  const { uid, gid, name, home } = found;
  const environment = { HOME: home, ...(name === null ? {} : { USER: name }) };
  const as = { identity: { uid, gid }, environment };
  if (processes === null) return { ...program, ...as };
  const spec = { command: 'prlimit', cwd: '/' };
  const file = await resolveCommand(server, spec, { PATH: process.env['PATH'] ?? '' });
  return { file, args: [`--nproc=${processes}:${processes}`, '--', program.file, ...program.args], ...as };
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

/** Both ends of three channels and of the one on which the system says that it could not be started. */
const DESCRIPTORS = 8;

interface SpawnDeps {
  readonly guard: ProcessGuard;
  /** Our own environment, from which a part is inherited. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Asked last before the process is started: true when it is no longer wanted. */
  readonly unwanted: () => boolean;
}

/** A started process, leader of a group of its own that is registered with the guard. */
export type Child = ChildProcessWithoutNullStreams & { readonly pid: number };

/**
 * Starts a local server: no shell, a process group (and session) of its own, piped streams. Rejects with GatewayError
 * NOT_SENT and leaves nothing behind.
 */
export async function spawnChild(server: string, spec: StdioSpec, deps: SpawnDeps): Promise<Child> {
  const env = childEnvironment(spec, deps.environment);
  const [file] = await Promise.all([resolveCommand(server, spec, env), deps.guard.ready()]);
  const { runAs = null, env: declared } = spec;
  const plain: LaunchedProgram = { file, args: spec.args };
  const program = runAs === null ? plain : await runAsLaunch(server, runAs, plain);
  // What is declared wins, here too.
  const whole = { ...env, ...program.environment, ...revealed(declared) };
  const turn = spawnTurn();
  if (turn !== null) await turn;
  if (deps.unwanted()) throw startFailure(server, 'it was stopped before it had started');
  if (fewDescriptorsLeft(DESCRIPTORS)) throw spawnFailure(server, file, Object.assign(new Error(), { code: 'EMFILE' }));
  let child: ChildProcessWithoutNullStreams;
  try {
    child = deps.guard.start((mark) =>
      spawn(program.file, program.args, {
        cwd: spec.cwd,
        env: { ...whole, ...mark },
        shell: false,
        detached: true,
        stdio: 'pipe',
        ...program.identity,
      }),
    );
  } catch (cause) {
    throw spawnFailure(server, file, cause);
  }
  // A pid is there at once or never; without one the reason follows as an event.
  if (child.pid === undefined) {
    const cause = await new Promise((resolve) => child.once('error', resolve));
    throw spawnFailure(server, file, cause);
  }
  child.on('error', () => {});
  return child as Child;
}

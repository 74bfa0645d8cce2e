import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fewDescriptorsLeft } from '../../http/descriptor-limit.ts';
import type { ProcessGuard } from '../../model/process-guard.ts';
import { revealed } from '../../model/secret.ts';
import type { RunAs, SshSpec, StdioSpec } from '../../model/server.ts';
import { cmdLine, isBatchFile } from './cmd-line.ts';
import { misconfigured, resolveCommand, spawnFailure, startFailure } from './command.ts';
import { childEnvironment } from './environment.ts';

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
  /** On Windows: the arguments are one text that is a command line as it is. */
  readonly verbatim?: boolean;
}

/** Node refuses to start a batch file itself, as the rules for programs do not keep its arguments apart. */
function byCmd(server: string, file: string, args: readonly string[]): LaunchedProgram {
  const line = cmdLine(file, args);
  if (line === null) throw misconfigured(server, `${file} is a batch file, which takes no line break in "args"`);
  return { file: process.env['ComSpec'] ?? 'cmd.exe', args: [line], verbatim: true };
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
  const file = await resolveCommand(server, spec, env);
  const { runAs = null, env: declared } = spec;
  const plain =
    process.platform === 'win32' && isBatchFile(file) ? byCmd(server, file, spec.args) : { file, args: spec.args };
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
        windowsHide: true,
        windowsVerbatimArguments: program.verbatim === true,
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

/** A process to be started here, and what is written to it before anything else, as a line or more. */
export interface Launch {
  readonly spec: StdioSpec;
  /** null: nothing. */
  readonly preamble: Buffer | null;
}

/**
 * What runs on the far side, by any POSIX shell: takes the environment from standard input up to a line with a dot,
 * goes to the working folder, and becomes the server. Beside it a watcher lives in the same process group for as long as
 * the ssh daemon's process for this connection does, and ends the group when that is gone: a server that ignores the end
 * of its input does not survive its connection.
 *
 * One line, because shells of the csh family take no line breaks in quotes.
 */
const FAR_SIDE = [
  'while IFS= read -r line && [ "$line" != . ]; do',
  'value=$(printf "%b_" "${line#*=}"); export "${line%%=*}=${value%_}"; done;',
  'up() { kill -0 "$1" 2>/dev/null || [ -d "/proc/$1" ]; };',
  'end() { kill "-$1" "-$$" 2>/dev/null || kill "-$1" "$$" 2>/dev/null; };',
  'if up "$PPID"; then (trap "" TERM HUP; while up "$PPID"; do sleep 1; done; end TERM; sleep 5; end KILL)',
  '</dev/null >/dev/null 2>&1 & fi;',
  'if [ -n "$1" ]; then cd -- "$1" || exit 1; fi; shift; exec "$@"',
].join(' ');

/**
 * The command line for a server on another host: `ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new [-i file]
 * [-p port] [user@]host command` (S2.23), run like any local process, so that the user's configuration, agents and jump
 * hosts work. The remote words are quoted. What is declared of the environment, and what of ours is listed by name, goes
 * over standard input, because argument lists can be read by every user of both machines.
 */
export function overSsh(spec: StdioSpec, ssh: SshSpec, own: Readonly<Record<string, string | undefined>>): Launch {
  const words = ['sh', '-c', FAR_SIDE, 'trunkline', spec.cwd, spec.command, ...spec.args];
  const remote = `exec ${words.map(quoted).join(' ')}`;
  const destination = ssh.user === null ? ssh.host : `${ssh.user}@${ssh.host}`;
  return {
    spec: {
      ...spec,
      command: 'ssh',
      args: [...options(ssh), destination, remote],
      env: {},
      inheritEnv: false,
      cwd: '/',
      ssh: null,
    },
    preamble: environment({ ...listed(spec.inheritEnv, own), ...revealed(spec.env) }),
  };
}

/** A whole environment of ours means nothing elsewhere: only names that were written down are sent. */
function listed(
  inherited: StdioSpec['inheritEnv'],
  own: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const values: Record<string, string> = Object.create(null);
  for (const name of typeof inherited === 'boolean' ? [] : inherited) {
    const value = own[name];
    if (value !== undefined) values[name] = value;
  }
  return values;
}

function options({ identityFile, port, hostKeys, knownHostsFile, controlMaster }: SshSpec): readonly string[] {
  const found = ['-o', 'BatchMode=yes', '-o', `StrictHostKeyChecking=${hostKeys}`];
  if (identityFile !== null) found.push('-i', identityFile);
  if (port !== 22) found.push('-p', String(port));
  if (knownHostsFile !== null) found.push('-o', `UserKnownHostsFile=${optionValue(knownHostsFile)}`);
  if (controlMaster) {
    found.push('-o', 'ControlMaster=auto', '-o', 'ControlPath=~/.ssh/trunkline-%C', '-o', 'ControlPersist=60');
  }
  return found;
}

/** ssh splits the values of file options at blanks and expands per cent signs. */
function optionValue(path: string): string {
  return `"${path.replaceAll('%', '%%').replaceAll('"', '\\"')}"`;
}

/** One word for the login shell of the far side, whichever it is: single quotes mean the same to all of them. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** `NAME=value` lines as `printf %b` reads them; the dot is the end. */
function environment(env: Readonly<Record<string, string>>): Buffer {
  const lines = Object.entries(env).map(
    ([name, value]) => `${name}=${value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`,
  );
  return Buffer.from([...lines, '.'].join('\n'));
}

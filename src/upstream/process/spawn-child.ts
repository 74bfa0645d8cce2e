import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fewDescriptorsLeft } from '../../http/descriptor-limit.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { ProcessGuard } from '../../model/process-guard.ts';
import { revealed } from '../../model/secret.ts';
import type { RunAs, SshSpec, StdioSpec } from '../../model/server.ts';
import { cmdLine, isBatchFile } from './cmd-line.ts';
import { misconfigured, resolveCommand, spawnFailure } from './command.ts';
import { childEnvironment } from './environment.ts';

let taken = false;
const waiting: (() => void)[] = [];

/**
 * Returns null if a process may be started now, else the wait for that. One process is started per turn of the event loop, for
 * all servers: each start takes milliseconds, and calls to other servers run in between.
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

/** A user of the operating system. */
interface SystemUser {
  readonly uid: number;
  readonly gid: number;
  /** Null for a uid without an entry. */
  readonly name: string | null;
  readonly home: string;
}

/** The program to start: the server's, or one that starts it. */
interface LaunchedProgram {
  readonly file: string;
  readonly args: readonly string[];
  readonly identity?: { readonly uid: number; readonly gid: number };
  readonly environment?: Readonly<Record<string, string>>;
  /** On Windows: the single argument is a complete command line. */
  readonly verbatim?: boolean;
}

/** Starts a batch file through cmd.exe: Node refuses to, because normal quoting does not protect a batch file's arguments. */
function byCmd(server: string, file: string, args: readonly string[]): LaunchedProgram {
  const line = cmdLine(file, args);
  if (line === null) throw misconfigured(server, `${file} is a batch file, which takes no line break in "args"`);
  return { file: process.env['ComSpec'] ?? 'cmd.exe', args: [line], verbatim: true };
}

/**
 * Runs a local server as another user, with a limit of processes (F41): one that forks without end reaches that user's limit
 * and not the system's. The limit covers all processes and threads of the user.
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

/** A uid needs no entry: its group then has the same number, and its home is the root folder. */
export function findUser(passwd: string, user: string): SystemUser | null {
  const column = /^\d+$/.test(user) ? 2 : 0;
  for (const line of passwd.split('\n')) {
    const parts = line.split(':');
    if (parts[column] !== user || parts.length < 7) continue;
    return { uid: Number(parts[2]), gid: Number(parts[3]), name: parts[0]!, home: parts[5]! };
  }
  return column === 0 ? null : { uid: Number(user), gid: Number(user), name: null, home: '/' };
}

/** Descriptors of a start: both ends of three pipes, and of the one that reports a failed exec. */
const DESCRIPTORS = 8;

interface SpawnDeps {
  readonly guard: ProcessGuard;
  /** The gateway's own environment, part of which is inherited. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Called right before the start; returns why it must not begin, or null. */
  readonly refusal: () => GatewayError | null;
}

/** A started process that leads its own process group, which is registered with the guard. */
export type Child = ChildProcessWithoutNullStreams & { readonly pid: number };

/**
 * Starts a local server: no shell, its own process group (and session), piped streams. Rejects with GatewayError NOT_SENT and
 * leaves nothing behind.
 */
export async function spawnChild(server: string, spec: StdioSpec, deps: SpawnDeps): Promise<Child> {
  const env = childEnvironment(spec, deps.environment);
  const file = await resolveCommand(server, spec, env);
  const { runAs = null, env: declared } = spec;
  const plain =
    process.platform === 'win32' && isBatchFile(file) ? byCmd(server, file, spec.args) : { file, args: spec.args };
  const program = runAs === null ? plain : await runAsLaunch(server, runAs, plain);
  // Declared variables win here too.
  const whole = { ...env, ...program.environment, ...revealed(declared) };
  const turn = spawnTurn();
  if (turn !== null) await turn;
  const refusal = deps.refusal();
  if (refusal !== null) throw refusal;
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
  // The pid is set at once or never; without one the reason arrives as an event.
  if (child.pid === undefined) {
    const cause = await new Promise((resolve) => child.once('error', resolve));
    throw spawnFailure(server, file, cause);
  }
  child.on('error', () => {});
  return child as Child;
}

/** A process to start, and the data that is written to it first. */
export interface Launch {
  readonly spec: StdioSpec;
  /** null for none. */
  readonly preamble: Buffer | null;
}

/**
 * The remote script, for any POSIX shell: reads the environment from standard input up to a line with a dot, changes to the
 * working folder, and becomes the server; `~/` in the folder and the command is the remote home folder. Next to it, in the
 * same process group, a watcher runs as long as the ssh daemon's process for this connection does, and then ends the group:
 * a server that ignores the end of its input does not outlive its connection.
 *
 * One line, because shells of the csh family do not accept line breaks in quotes.
 */
const REMOTE_SCRIPT = [
  'while IFS= read -r line && [ "$line" != . ]; do',
  'value=$(printf "%b_" "${line#*=}"); export "${line%%=*}=${value%_}"; done;',
  'up() { kill -0 "$1" 2>/dev/null || [ -d "/proc/$1" ]; };',
  'end() { kill "-$1" "-$$" 2>/dev/null || kill "-$1" "$$" 2>/dev/null; };',
  'if up "$PPID"; then (trap "" TERM HUP; while up "$PPID"; do sleep 1; done; end TERM; sleep 5; end KILL)',
  '</dev/null >/dev/null 2>&1 & fi;',
  'case "$1" in "");; "~" | "~/"*) cd -- "$HOME${1#?}" || exit 1;; *) cd -- "$1" || exit 1;; esac; shift;',
  'case "$1" in "~/"*) value=$HOME${1#?}; shift; exec "$value" "$@";; esac; exec "$@"',
].join(' ');

/**
 * The command line for a server on another host: `ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new [-i file] [-p port]
 * [user@]host command` (S2.23), run like any local process, so that the user's configuration, agents and jump hosts work.
 * Remote words are quoted. Declared variables, and those of the gateway that are listed by name, are sent over standard input,
 * because any user of either machine can read argument lists.
 */
export function overSsh(spec: StdioSpec, ssh: SshSpec, own: Readonly<Record<string, string | undefined>>): Launch {
  const words = ['sh', '-c', REMOTE_SCRIPT, 'trunkline', spec.cwd, spec.command, ...spec.args];
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

/** Only variables listed by name are sent: the gateway's whole environment has no meaning on another host. */
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

/** ssh splits file option values at blanks and expands percent signs. */
function optionValue(path: string): string {
  return `"${path.replaceAll('%', '%%').replaceAll('"', '\\"')}"`;
}

/** One word for the remote login shell: all shells treat single quotes alike. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** `NAME=value` lines for `printf %b`, ended by a dot. */
function environment(env: Readonly<Record<string, string>>): Buffer {
  const lines = Object.entries(env).map(
    ([name, value]) => `${name}=${value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`,
  );
  return Buffer.from([...lines, '.'].join('\n'));
}

import { revealed } from '../../model/secret.ts';
import type { SshSpec, StdioSpec } from '../../model/server.ts';

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

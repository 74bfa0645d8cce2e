import { createHash } from 'node:crypto';
import { basename, resolve } from 'node:path';
import { Secret } from '../../model/secret.ts';
import { type Origin, type Server, type TransportSpec, transportFacts } from '../../model/server.ts';
import { DEFAULTS } from '../defaults.ts';
import type { ConfigProblem } from '../problem/problem.ts';
import { commandName } from './derived-name.ts';

/** A server with a name and a transport; everything else is the default. */
export function plainServer(name: string, transport: TransportSpec, origin: Origin): Server {
  const { maxMessageBytes, maxProcessesPerServer } = DEFAULTS;
  return {
    name,
    transport,
    description: null,
    isolation: null,
    isolationHeader: null,
    timeoutMs: DEFAULTS.timeoutMs,
    toolTimeoutMs: new Map(),
    retry: DEFAULTS.retry,
    trusted: DEFAULTS.trusted,
    cache: DEFAULTS.cache,
    start: DEFAULTS.start,
    probeMs: DEFAULTS.probeMs,
    drift: DEFAULTS.drift,
    enabled: true,
    tools: { include: null, exclude: new Set() },
    limits: { maxMessageBytes, maxProcesses: maxProcessesPerServer },
    origin,
    connectionDigest: connectionDigest({ transport, isolation: null, isolationHeader: null, maxMessageBytes }),
  };
}

type Digested = Pick<Server, 'transport' | 'isolation' | 'isolationHeader'> & { readonly maxMessageBytes: number };

/**
 * Definitions with equal digests can use the same connection. Covers the parameters of the connection (S3.12: type, command,
 * arguments in order, environment, url, headers) and who may share it; not the name, the description, deadlines or filters,
 * which take effect without a new connection.
 */
export function connectionDigest({ transport, isolation, isolationHeader, maxMessageBytes }: Digested): string {
  const facts = [transportFacts(transport), isolation, isolationHeader?.toLowerCase() ?? null, maxMessageBytes];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex');
}

/** The server of an invalid definition: has a name, a place and the problems, and is never started. */
export function misconfiguredServer(
  name: string,
  origin: Origin,
  problems: readonly ConfigProblem[],
  remote: boolean,
): Server {
  const misconfigured = problems.map(inOneLine).join('; ');
  const transport = remote
    ? ({ type: 'http', url: '', headers: {}, tls: {} } as const)
    : ({ type: 'stdio', command: '', args: [], env: {}, inheritEnv: false, cwd: '' } as const);
  return {
    ...plainServer(name, transport, origin),
    misconfigured,
    // Any correction needs a new start.
    connectionDigest: createHash('sha256').update(`misconfigured ${misconfigured}`).digest('hex'),
  };
}

function inOneLine({ code, file, line, column, message, fix }: ConfigProblem): string {
  const place = line === 0 ? basename(file) : `${basename(file)}:${line}:${column}`;
  return `${message} (${code}, ${place}); fix: ${fix}`;
}

/** The server of `trunkline -- npx -y some-server`, with the variables of `-e`; null without a command. */
export function argvServer(
  words: readonly string[],
  cwd: string,
  variables: Readonly<Record<string, string>> = {},
): Server | null {
  const [command, ...args] = words;
  if (command === undefined || command === '') return null;
  const program = /[/\\]/.test(command) ? resolve(cwd, command) : command;
  // A command line cannot declare variables, and its user expects those of the shell.
  const env = Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, new Secret(value)]));
  const transport = { type: 'stdio', command: program, args, env, inheritEnv: true, cwd } as const;
  return plainServer(commandName(words), transport, { file: '<command line>', line: 1, column: 1 });
}

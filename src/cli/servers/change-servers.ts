import { setTimeout as pause } from 'node:timers/promises';
import { RunTimeProblem, restoreStopped } from '../../app/stopped-gateway.ts';
import { derivedName } from '../../config/server/derived-name.ts';
import { targetOf } from '../../config/server/target.ts';
import { isSettled, type ServerStatus } from '../../model/server-state.ts';
import { type CommandInput, print } from '../command-input.ts';
import { cannotOpen, EXIT, type ExitCode, usage } from '../exit-code.ts';
import { serverLine } from '../server-line.ts';
import { loadOptions } from '../sources.ts';
import { VARIABLE_NAME } from '../variables.ts';
import {
  type AddOptions,
  type Change,
  type ChangedServer,
  type ServerChanges,
  serverChanges,
} from './server-changes.ts';

/** How long `add` waits for the server to come up; the start continues after that. */
const SETTLE_MS = 60_000;
const POLL_MS = 50;

export interface AddInput extends CommandInput {
  readonly name: string;
  readonly definition: object;
  readonly options: AddOptions;
  readonly wait: boolean;
}

/**
 * `trunkline add`: persists the server, with or without a running gateway, and reports its start. The exit code says whether the
 * server was added, not whether it started.
 */
export async function add(input: AddInput): Promise<ExitCode> {
  return withServerChanges(input, async (changes) => {
    const { name, definition, options, wait } = input;
    const added = await changes.add(name, definition, options);
    const server = wait && changes.running ? await settled(changes, added) : added;
    show(input, changes, 'added', server, commandOf(definition) + hintOf(server));
  });
}

/** Refuses a name that exists before secrets are stored for it, which would replace those of the existing server. */
export async function refuseTaken(input: CommandInput, name: string): Promise<void> {
  const changes = await serverChanges(input);
  try {
    if ((await changes.server(name)) === null) return;
    throw usage(`the server ${name} exists already: use "trunkline add --replace", or choose another name with --as`);
  } finally {
    await changes.close();
  }
}

const DONE = { remove: 'removed', suspend: 'suspended', resume: 'resumed', restart: 'restarted' } as const;

/** `trunkline remove|suspend|resume|restart <server>`. */
export async function changeServer(
  input: CommandInput & { readonly name: string; readonly change: Change },
): Promise<ExitCode> {
  return withServerChanges(input, async (changes) => {
    const { name, change } = input;
    const server = await changes.change(name, change);
    if (change === 'restart' && server.state === 'misconfigured') {
      throw usage(`${name} is still misconfigured: ${server['reason']}`);
    }
    show(input, changes, DONE[change], server);
    // The files of a bundle are on the machine of its gateway.
    if (change !== 'remove' || input.flags.gatewayUrl !== undefined) return;
    const { removeBundle } = await import('../registry/mcpb.ts');
    await removeBundle(input, name, await changes.definitions());
  });
}

/** The command line of the server, so that the user sees an option that went to the server instead; empty for a URL. */
function commandOf(definition: { readonly command?: string; readonly args?: readonly string[] }): string {
  const { command, args = [] } = definition;
  return command === undefined ? '' : `    runs  ${[command, ...args].join(' ')}\n`;
}

/** The remedy if the server did not start; otherwise empty. */
function hintOf(server: ChangedServer): string {
  const { lastLaunchFailure } = server as unknown as Partial<ServerStatus>;
  const hint = lastLaunchFailure?.likelyCause ?? null;
  return hint === null ? '' : `    hint  ${hint}; all of it: trunkline doctor ${server.name}\n`;
}

function show(
  input: CommandInput,
  { running, label }: ServerChanges,
  done: string,
  server: ChangedServer,
  more = '',
): void {
  const { name, state } = server;
  const line = () => `${serverLine(server as unknown as ServerStatus, name.length, Date.now())}\n`;
  const text = () => `${done} ${name} (${label})\n${state === undefined ? '' : line()}${more}`;
  print(input, { done, server, running }, text);
}

async function withServerChanges(
  input: CommandInput,
  run: (changes: ServerChanges) => Promise<void>,
): Promise<ExitCode> {
  const changes = await serverChanges(input);
  try {
    await run(changes);
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof RunTimeProblem)) throw error;
    const wording =
      error.problems.length === 0
        ? error.message
        : error.problems.map(({ code, message, fix }) => `${code}  ${message}\n   fix: ${fix}`).join('\n');
    throw usage(wording, { cause: error });
  } finally {
    await changes.close();
  }
}

async function settled(changes: ServerChanges, added: ChangedServer): Promise<ChangedServer> {
  const end = performance.now() + SETTLE_MS;
  for (let server = added; ; ) {
    const lazy = server['start'] === 'lazy' || server['enabled'] === false;
    if (lazy || isSettled(server as unknown as ServerStatus) || performance.now() > end) return server;
    await pause(POLL_MS);
    const next = await changes.server(server.name);
    if (next === null) return server;
    server = next;
  }
}

/** `trunkline restore [--empty]`: replaces a damaged run-time store by its last good snapshot, or by an empty store. */
export async function restore(input: CommandInput & { readonly empty: boolean }): Promise<ExitCode> {
  const { terminal, empty } = input;
  const result = await restoreStopped(loadOptions(input, true), empty ? 'empty' : 'snapshot');
  if (!result.ok) throw cannotOpen(result.problem, terminal.cwd);
  const { restored, file } = result;
  const { keptAs, takenAt, records } = restored;
  const at = takenAt?.toISOString() ?? null;
  const what = at === null ? 'nothing' : `the snapshot of ${at} (${records} records)`;
  const kept = keptAs === null ? '' : `  what was there is kept as ${keptAs}\n`;
  const later = at === null ? '' : '  what was changed after the snapshot is not in it\n';
  print(input, { file, keptAs, takenAt: at, records }, () => `${file} holds ${what} now\n${kept}${later}`);
  return EXIT.ok;
}

/** The options of `add` that the `mcp add` commands of clients have as well. */
export interface ServerFlags {
  readonly transport?: string;
  readonly env?: readonly string[];
  readonly header?: readonly string[];
  readonly scope?: string;
  readonly description?: string;
}

/** The name of a server if the user gave none. */
export function nameFrom(command: readonly string[]): string {
  const name = derivedName(command);
  if (name !== null) return name;
  throw usage(`the name of the server is missing, and an address has none: trunkline add <name> ${command[0]}`);
}

/** The definition that the words describe: a URL, or a command with its arguments. */
export function definitionFrom(flags: ServerFlags, command: readonly string[], cwd: string): object {
  const { transport, env = [], header = [], scope, description } = flags;
  if (scope === 'project') {
    throw usage('the gateway does not write configuration files: add the server to the file, or omit "-s project"');
  }
  const [first, ...rest] = command;
  if (first === undefined)
    throw usage('name a url, or a command behind "--": trunkline add files -- npx -y some-server');
  const common = {
    ...(transport === undefined ? {} : { type: transport }),
    ...(description === undefined ? {} : { description }),
  };
  const target = targetOf([first, ...rest], transport === undefined ? null : transport !== 'stdio', cwd);
  if ('complaint' in target) throw usage(`${target.complaint}; ${target.fix}`);
  if ('url' in target) {
    if (env.length > 0) throw usage('-e is for commands; headers of a url are -H "Name: value"');
    return { ...common, ...target, ...(header.length === 0 ? {} : { headers: pairs(header, ':', '-H') }) };
  }
  if (header.length > 0) throw usage('-H is for urls; variables of a command are -e NAME=value');
  return {
    ...common,
    ...target,
    ...(env.length === 0 ? {} : { env: pairs(env.map(referred), '=', '-e') }),
  };
}

/** `NAME` alone refers to the variable of that name on the gateway's machine, expanded when the server starts. */
function referred(text: string): string {
  return VARIABLE_NAME.test(text) ? `${text}=\${${text}}` : text;
}

function pairs(texts: readonly string[], separator: string, flag: string): Record<string, string> {
  const found = new Map<string, string>();
  for (const text of texts) {
    const cut = text.indexOf(separator);
    // A text without a name may be a secret value, so the error masks it.
    if (cut <= 0) {
      const words = `${flag} takes a name and a value with "${separator}" between them: ${masked(text)}`;
      throw usage(
        `${words}; write ${separator === '=' ? `-e NAME=value, or -e 'NAME=\${NAME}' for a variable of the gateway` : '-H "Name: value"'}`,
      );
    }
    const value = text.slice(cut + 1);
    found.set(text.slice(0, cut).trim(), separator === ':' ? value.trim() : value);
  }
  return Object.fromEntries(found);
}

/** Keeps the first word if others follow: `Bearer ***`. */
function masked(text: string): string {
  const [, first = ''] = /^(\w{1,20}) ./.exec(text) ?? [];
  return `${first} ***`.trimStart();
}

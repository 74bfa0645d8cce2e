import { RunTimeProblem } from '../../app/stopped-gateway.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { type CommandInput, print } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode } from '../exit-code.ts';
import { isSettled, serverLine } from '../start-screen.ts';
import {
  type AddOptions,
  type Change,
  type ChangedServer,
  type ServerChanges,
  serverChanges,
} from './server-changes.ts';

/** How long `add` waits to say how the server came up; it goes on starting after that. */
const SETTLE_MS = 60_000;
const POLL_MS = 50;

export interface AddInput extends CommandInput {
  readonly name: string;
  readonly definition: object;
  readonly options: AddOptions;
  readonly wait: boolean;
}

/**
 * `trunkline add`: durable, with or without a gateway. Says how the server came up; the exit code says whether it was
 * added, which a server that does not start yet is.
 */
export async function add(input: AddInput): Promise<ExitCode> {
  return changing(input, async (changes) => {
    const { name, definition, options, wait } = input;
    const added = await changes.add(name, definition, options);
    const server = wait && changes.running ? await settled(changes, added) : added;
    show(input, changes, 'added', server);
  });
}

const DONE = { remove: 'removed', suspend: 'suspended', resume: 'resumed', restart: 'restarted' } as const;

/** `trunkline remove|suspend|resume|restart <server>`. */
export async function changeServer(
  input: CommandInput & { readonly name: string; readonly change: Change },
): Promise<ExitCode> {
  return changing(input, async (changes) => {
    const { name, change } = input;
    const server = await changes.change(name, change);
    if (change === 'restart' && server.state === 'misconfigured') {
      throw new CommandError(EXIT.usage, `${name} is still misconfigured: ${server['reason']}`);
    }
    show(input, changes, DONE[change], server);
  });
}

function show(input: CommandInput, { running, label }: ServerChanges, done: string, server: ChangedServer): void {
  const { name, state } = server;
  const line = () => `${serverLine(server as unknown as ServerStatus, name.length, Date.now())}\n`;
  const text = () => `${done} ${name} (${label})\n${state === undefined ? '' : line()}`;
  print(input, { done, server, running }, text);
}

async function changing(input: CommandInput, run: (changes: ServerChanges) => Promise<void>): Promise<ExitCode> {
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
    throw new CommandError(EXIT.usage, wording, { cause: error });
  } finally {
    await changes.close();
  }
}

async function settled(changes: ServerChanges, added: ChangedServer): Promise<ChangedServer> {
  const end = performance.now() + SETTLE_MS;
  for (let server = added; ; ) {
    const lazy = server['start'] === 'lazy' || server['enabled'] === false;
    if (lazy || isSettled(server as unknown as ServerStatus) || performance.now() > end) return server;
    await new Promise((done) => setTimeout(done, POLL_MS));
    const next = await changes.server(server.name);
    if (next === null) return server;
    server = next;
  }
}

import type { Command } from 'commander';
import type { InputPrompt } from '../config/document/inputs.ts';
import { printable } from '../model/printable.ts';
import type { ExitCode } from './exit-code.ts';
import type { GatewayFlags } from './flags.ts';

/** Output, environment and prompt of a command: those of the process, or those of a test. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Resolves when all of `out` is written: with the error if it could not be, else with null. Absent: it always can. */
  readonly written?: () => Promise<NodeJS.ErrnoException | null>;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly version: string;
  /** Asks the user; null without a terminal. */
  readonly ask: InputPrompt | null;
}

export interface CommandInput {
  /** Configuration file as the user wrote it; undefined selects the nearest one. */
  readonly file: string | undefined;
  /** Words after `--` for commands that take a server's command line; empty for other commands. */
  readonly serverCommand: readonly string[];
  readonly flags: GatewayFlags;
  readonly terminal: Terminal;
}

/** Asks a question that is answered with yes only by `y` or `yes`. */
export async function confirm(ask: InputPrompt, description: string): Promise<boolean> {
  const answer = await ask({ id: 'y/N', description, password: false });
  return /^y(?:es)?$/i.test(answer?.trim() ?? '');
}

/** What the modules that define commands build them with. */
export interface CommandParts {
  /** Creates a command with the common options and `--config`, below `parent` or at the top level. */
  command(name: string, description: string, parent?: Command): Command;
  /** `flags`: those of the action, which include the flags before the name of its command. */
  input(flags: GatewayFlags): CommandInput;
  done(code: ExitCode): void;
}

/** Names the nodes that did not answer, so that a list lacks their entries. Returns false if all nodes answered. */
export function reportSilentNodes(
  { terminal }: CommandInput,
  { silent = [] }: { readonly silent?: readonly string[] },
): boolean {
  if (silent.length > 0) terminal.err(`(no answer from ${printable(silent.join(', '))})\n`);
  return silent.length > 0;
}

/** With `--json` prints `facts` (an object, or JSON text); otherwise prints `text()`. */
export function print({ terminal, flags }: CommandInput, facts: object | string, text: () => string): void {
  const json = typeof facts === 'string' ? facts : JSON.stringify(facts);
  terminal.out(flags.json === true ? `${json}\n` : text());
}

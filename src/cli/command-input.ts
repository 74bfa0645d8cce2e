import type { Command } from 'commander';
import type { InputPrompt } from '../config/document/inputs.ts';
import { printable } from '../model/printable.ts';
import type { ExitCode } from './exit-code.ts';
import type { GatewayFlags } from './flags.ts';

/** What a command prints to and is asked from; real streams, or a test's. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly version: string;
  /** Asks the person; null where there is none. */
  readonly ask: InputPrompt | null;
}

export interface CommandInput {
  /** Configuration file as the user wrote it; undefined for the nearest one. */
  readonly file: string | undefined;
  /** Words behind `--`, for commands that take a server's; else empty. */
  readonly serverCommand: readonly string[];
  readonly flags: GatewayFlags;
  readonly terminal: Terminal;
}

/** What the files that describe commands build them from. */
export interface CommandParts {
  /** Makes a command with the flags that all have, and `--config`; within `parent`, or at the top. */
  command(name: string, description: string, parent?: Command): Command;
  input(flags: GatewayFlags): CommandInput;
  done(code: ExitCode): void;
}

/** Names the nodes that a list of all nodes has nothing of; false where it has all. */
export function tellSilent(
  { terminal }: CommandInput,
  { silent = [] }: { readonly silent?: readonly string[] },
): boolean {
  if (silent.length > 0) terminal.err(`(no answer from ${printable(silent.join(', '))})\n`);
  return silent.length > 0;
}

/** Prints the facts, or JSON text, with `--json`; the text without. */
export function print({ terminal, flags }: CommandInput, facts: object | string, text: () => string): void {
  const json = typeof facts === 'string' ? facts : JSON.stringify(facts);
  terminal.out(flags.json === true ? `${json}\n` : text());
}

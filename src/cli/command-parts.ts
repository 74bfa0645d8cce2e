import type { Command } from 'commander';
import type { CommandInput } from './command-input.ts';
import type { ExitCode } from './exit-code.ts';
import type { GatewayFlags } from './flags.ts';

/** What the files that describe commands build them from. */
export interface CommandParts {
  /** Makes a command with the flags that all have, and `--config`; within `parent`, or at the top. */
  command(name: string, description: string, parent?: Command): Command;
  input(flags: GatewayFlags): CommandInput;
  done(code: ExitCode): void;
}

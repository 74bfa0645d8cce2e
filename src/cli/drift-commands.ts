import { type Command, Option } from 'commander';
import type { ExitCode } from './exit-code.ts';
import { type GatewayFlags, lines } from './flags.ts';
import type { Terminal } from './terminal.ts';

export interface DriftCommandsDeps {
  readonly terminal: Terminal;
  readonly serverCommand: readonly string[];
  readonly merged: (flags: object) => GatewayFlags;
  readonly done: (code: ExitCode) => void;
  /** Gives a command the flags that say which gateway is meant. */
  readonly addOptions: (command: Command) => Command;
}

/** `trunkline drift` and what belongs to it. */
export function addDriftCommands(program: Command, deps: DriftCommandsDeps): void {
  const { terminal, serverCommand, merged, done, addOptions } = deps;
  const drift = addOptions(
    program.command('drift').description('show what servers offer that nobody approved, and what looks poisoned'),
  )
    .enablePositionalOptions()
    .addOption(new Option('--check', 'exit code 6 when something waits for a decision'))
    .argument('[server]', 'only this server')
    .action(async (server: string | undefined, flags: GatewayFlags & { readonly check?: boolean }) => {
      const commands = await import('./drift.ts');
      const input = { file: flags.config, serverCommand, flags: merged(flags), terminal };
      done(await commands.drift({ ...input, server, check: flags.check === true }));
    });
  /** Flags before the name of a command count as well as flags behind it. */
  const input = (flags: GatewayFlags) => {
    const all = { ...drift.opts<GatewayFlags>(), ...flags };
    return { file: all.config, serverCommand, flags: merged(all), terminal };
  };

  addOptions(drift.command('approve').description('approve definitions as they are now'))
    .addOption(new Option('--all', 'everything of this server that waits'))
    .argument('<server>', 'the server')
    .argument('[name...]', 'names of tools, prompts or templates; "instructions"; list/name where one is in two lists')
    .action(async (server: string, names: string[], flags: GatewayFlags & { readonly all?: boolean }) => {
      const { approve } = await import('./drift.ts');
      done(await approve({ ...input(flags), server, names, all: flags.all === true }));
    });

  addOptions(drift.command('block').description('offer nothing under these names, and refuse calls, until approved'))
    .argument('<server>', 'the server')
    .argument('<name...>', 'as for approve')
    .action(async (server: string, names: string[], flags: GatewayFlags) => {
      const { block } = await import('./drift.ts');
      done(await block({ ...input(flags), server, names, all: false }));
    });

  addOptions(drift.command('history').description('show what was seen of a server and decided, the newest first'))
    .addOption(new Option('-n, --lines <number>', 'so many').default(100).argParser(lines))
    .argument('<server>', 'the server')
    .action(async (server: string, flags: GatewayFlags & { readonly lines: number }) => {
      const { history } = await import('./drift.ts');
      done(await history({ ...input(flags), server, lines: flags.lines }));
    });
}

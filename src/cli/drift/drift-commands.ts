import { Option } from 'commander';
import type { CommandParts } from '../command-input.ts';
import { type GatewayFlags, lines } from '../flags.ts';

/** `trunkline drift` with its subcommands. */
export function addDriftCommands({ command, input, done }: CommandParts): void {
  const drift = command('drift', 'list definitions that changed since approval, and suspicious ones')
    .enablePositionalOptions()
    .addOption(new Option('--check', 'exit code 6 if definitions wait for approval'))
    .argument('[server]', 'only this server')
    .action(async (server: string | undefined, flags: GatewayFlags & { readonly check?: boolean }) => {
      const commands = await import('./drift.ts');
      done(await commands.drift({ ...input(flags), server, check: flags.check === true }));
    });
  command('approve', 'approve definitions: shows them and asks, or takes the code that drift printed', drift)
    .addOption(new Option('--all', 'all definitions of this server that wait'))
    .addOption(new Option('--seen <code>', 'approve only what `drift` printed with this code'))
    .addOption(new Option('--unseen', 'approve without showing and asking').conflicts('seen'))
    .argument('<server>', 'name of the server')
    .argument('[name...]', 'names of tools, prompts or templates; "instructions"; list/name if a name is in two lists')
    .action(
      async (
        server: string,
        names: string[],
        flags: GatewayFlags & { readonly all?: boolean; readonly seen?: string; readonly unseen?: boolean },
      ) => {
        const { approve } = await import('./drift.ts');
        const { all = false, seen, unseen = false } = flags;
        done(await approve({ ...input(flags), server, names, all, seen, unseen }));
      },
    );

  command('block', 'withhold these names and refuse calls until they are approved', drift)
    .argument('<server>', 'name of the server')
    .argument('<name...>', 'as for approve')
    .action(async (server: string, names: string[], flags: GatewayFlags) => {
      const { block } = await import('./drift.ts');
      done(await block({ ...input(flags), server, names, all: false }));
    });

  command('history', 'list changes and decisions of a server, newest first', drift)
    .addOption(new Option('-n, --lines <number>', 'number of entries').default(100).argParser(lines))
    .argument('<server>', 'name of the server')
    .action(async (server: string, flags: GatewayFlags & { readonly lines: number }) => {
      const { history } = await import('./drift.ts');
      done(await history({ ...input(flags), server, lines: flags.lines }));
    });
}

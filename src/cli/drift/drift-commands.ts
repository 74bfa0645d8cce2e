import { Option } from 'commander';
import type { CommandParts } from '../command-parts.ts';
import { type GatewayFlags, lines } from '../flags.ts';

/** `trunkline drift` and what belongs to it. */
export function addDriftCommands({ command, input: inputOf, done }: CommandParts): void {
  const drift = command('drift', 'show what servers offer that is not approved, and what looks poisoned')
    .enablePositionalOptions()
    .addOption(new Option('--check', 'exit code 6 when something waits for a decision'))
    .argument('[server]', 'only this server')
    .action(async (server: string | undefined, flags: GatewayFlags & { readonly check?: boolean }) => {
      const commands = await import('./drift.ts');
      done(await commands.drift({ ...inputOf(flags), server, check: flags.check === true }));
    });
  /** Flags before the name of a command count as well as flags behind it. */
  const input = (flags: GatewayFlags) => inputOf({ ...drift.opts<GatewayFlags>(), ...flags });

  command('approve', 'approve definitions that were seen: by their code, or as they are shown and confirmed', drift)
    .addOption(new Option('--all', 'everything of this server that waits'))
    .addOption(new Option('--seen <code>', 'only if what waits is what `drift` showed with this code'))
    .addOption(new Option('--unseen', 'whatever is there by then, without being asked').conflicts('seen'))
    .argument('<server>', 'the server')
    .argument('[name...]', 'names of tools, prompts or templates; "instructions"; list/name where one is in two lists')
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

  command('block', 'offer nothing under these names, and refuse calls, until approved', drift)
    .argument('<server>', 'the server')
    .argument('<name...>', 'as for approve')
    .action(async (server: string, names: string[], flags: GatewayFlags) => {
      const { block } = await import('./drift.ts');
      done(await block({ ...input(flags), server, names, all: false }));
    });

  command('history', 'show what was seen of a server and decided, the newest first', drift)
    .addOption(new Option('-n, --lines <number>', 'so many').default(100).argParser(lines))
    .argument('<server>', 'the server')
    .action(async (server: string, flags: GatewayFlags & { readonly lines: number }) => {
      const { history } = await import('./drift.ts');
      done(await history({ ...input(flags), server, lines: flags.lines }));
    });
}

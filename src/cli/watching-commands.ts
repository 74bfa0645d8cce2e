import { Option } from 'commander';
import type { CommandParts } from './command-parts.ts';
import { type GatewayFlags, lines } from './flags.ts';

/** The commands that show how servers are, and what they write. */
export function addWatchingCommands({ command, input, done }: CommandParts): void {
  command('status', 'show the servers of the running gateway, or all about one')
    .argument('[server]', 'only this server, with all that is known of it; or a configuration file')
    .action(async (word: string | undefined, flags: GatewayFlags) => {
      const { status } = await import('./servers/status.ts');
      done(await status({ ...input(flags), word }));
    });

  command('logs', 'show the standard error of servers, and their events')
    .addOption(new Option('-f, --follow', 'go on with what comes, through restarts; Ctrl-C ends it'))
    .addOption(new Option('-n, --lines <number>', 'so many that are there already').default(100).argParser(lines))
    .argument('[server]', 'only of this server')
    .action(
      async (
        server: string | undefined,
        flags: GatewayFlags & { readonly follow?: boolean; readonly lines: number },
      ) => {
        const { logs } = await import('./logs.ts');
        const { follow = false, lines: count } = flags;
        done(await logs({ ...input(flags), server, follow, lines: count }));
      },
    );
}

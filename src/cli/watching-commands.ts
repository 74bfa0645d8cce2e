import { Option } from 'commander';
import type { CommandParts } from './command-parts.ts';
import { type GatewayFlags, lines } from './flags.ts';

/** The commands that show servers, their logs and the nodes of a cluster, and the one that drains a node. */
export function addWatchingCommands({ command, input, done }: CommandParts): void {
  command('status', 'show all servers and what needs action, or the details of one')
    .argument('[server]', 'name of a server, or a configuration file')
    .action(async (word: string | undefined, flags: GatewayFlags) => {
      const { status } = await import('./servers/status.ts');
      done(await status({ ...input(flags), word }));
    });

  command('logs', 'show standard error and state changes of servers')
    .addOption(new Option('-f, --follow', 'follow new lines, over restarts of the server; Ctrl-C ends it'))
    .addOption(new Option('-n, --lines <number>', 'number of existing lines').default(100).argParser(lines))
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

  command('nodes', 'list the nodes of the cluster and conflicts between their files').action(
    async (flags: GatewayFlags) => {
      const { nodes } = await import('./nodes.ts');
      done(await nodes(input(flags)));
    },
  );

  command('drain', 'make a node finish its calls, hand over and exit')
    .argument('[node]', 'name of the node (default: the node of this gateway)')
    .action(async (node: string | undefined, flags: GatewayFlags) => {
      const { drain } = await import('./nodes.ts');
      done(await drain({ ...input(flags), node }));
    });
}

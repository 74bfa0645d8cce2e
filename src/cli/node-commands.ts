import type { CommandParts } from './command-parts.ts';
import type { GatewayFlags } from './flags.ts';

/** The commands that are about the nodes of a cluster. */
export function addNodeCommands({ command, input, done }: CommandParts): void {
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

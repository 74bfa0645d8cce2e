import type { CommandParts } from './command-parts.ts';
import type { GatewayFlags } from './flags.ts';

/** The commands that are about the nodes of a cluster. */
export function addNodeCommands({ command, input, done }: CommandParts): void {
  command('nodes', 'show the nodes of the cluster').action(async (flags: GatewayFlags) => {
    const { nodes } = await import('./nodes.ts');
    done(await nodes(input(flags)));
  });

  command('drain', 'have a node of the cluster finish what it does, hand over and end')
    .argument('[node]', 'its name (default: the node that runs here)')
    .action(async (node: string | undefined, flags: GatewayFlags) => {
      const { drain } = await import('./nodes.ts');
      done(await drain({ ...input(flags), node }));
    });
}

import { type Command, Option } from 'commander';
import { LINKED_NAME } from '../../model/names.ts';
import type { CommandParts } from '../command-input.ts';
import { type GatewayFlags, KEY_OPTION } from '../flags.ts';
import type { LinkInput } from './link.ts';

const YES = ['-y, --yes', 'do not ask'] as const;

interface LinkFlags extends GatewayFlags {
  readonly all?: boolean;
  readonly name?: string;
  readonly replace?: boolean;
  readonly url?: string;
  readonly yes?: boolean;
}

/** `trunkline import`, `link` and `unlink`. */
export function addClientCommands({ command, input, done }: CommandParts): void {
  command('import', 'add the servers that the clients of this machine have, each once')
    .addOption(new Option(...YES))
    .argument('[files...]', 'files to read (default: those of all clients)')
    .action(async (files: string[], flags: GatewayFlags & { readonly yes?: boolean }) => {
      const { importServers } = await import('./import.ts');
      done(await importServers({ ...input(flags), files, yes: flags.yes === true }));
    });
  const linkInput = (clients: string[], flags: LinkFlags): LinkInput => {
    const { all = false, name = null, replace = false, url = null, yes = false } = flags;
    return { ...input(flags), clients, all, name, replace, url, yes };
  };
  const shared = (made: Command): Command =>
    made
      .addOption(new Option('--all', 'all clients that are found'))
      .addOption(new Option('--name <name>', `name of the gateway in the files (default: ${LINKED_NAME})`))
      .addOption(new Option(...YES))
      .argument('[clients...]', 'claude-code, claude-desktop, cursor, vscode, codex, gemini, …');
  shared(command('link', 'make the gateway a server in the files of clients'))
    .addOption(new Option('--replace', 'take the other servers out of these files (import them first)'))
    .addOption(new Option('--url <url>', 'MCP endpoint of the gateway (default: the one of this machine)'))
    .addOption(KEY_OPTION)
    .action(async (clients: string[], flags: LinkFlags) => {
      const { link } = await import('./link.ts');
      done(await link(linkInput(clients, flags)));
    });
  shared(command('unlink', 'make the files of clients what they were before link')).action(
    async (clients: string[], flags: LinkFlags) => {
      const { unlink } = await import('./link.ts');
      done(await unlink(linkInput(clients, flags)));
    },
  );
}

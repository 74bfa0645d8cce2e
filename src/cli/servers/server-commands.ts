import { Option } from 'commander';
import { URL_KINDS } from '../../model/server.ts';
import type { CommandParts } from '../command-parts.ts';
import type { GatewayFlags } from '../flags.ts';
import type { ServerFlags } from './server-flags.ts';

interface AddFlags extends GatewayFlags, ServerFlags {
  readonly replace?: boolean;
  readonly ttl?: string;
  readonly session?: string;
  readonly wait: boolean;
}

const CHANGES = {
  remove: 'remove a server that was added at run time',
  restart: 'stop and start a server',
  suspend: 'end a server and keep it so, over restarts, until it is resumed; servers of files too',
  resume: 'let a suspended server run again',
} as const;

/** The commands that change which servers run. */
export function addServerCommands({ command, input, done }: CommandParts): void {
  command('add', 'add a server, for good or for a while: trunkline add <name> <url>, or <name> -- command …')
    .addOption(
      new Option('-t, --transport <type>', 'how it is reached; found out where it is left out').choices([
        'stdio',
        ...URL_KINDS,
      ]),
    )
    .addOption(
      new Option('-e, --env <NAME=value>', 'a variable of the command; ${NAME} is read when it starts').argParser(
        collected,
      ),
    )
    .addOption(
      new Option('-H, --header <Name: value>', 'a header of every request; ${NAME} is read when it starts').argParser(
        collected,
      ),
    )
    .addOption(
      new Option('-s, --scope <scope>', 'taken from other clients; local and user mean the data folder').choices([
        'local',
        'user',
        'project',
      ]),
    )
    .addOption(new Option('--description <text>', 'for people'))
    .addOption(new Option('--replace', 'take the place of the one that was added under this name'))
    .addOption(new Option('--ttl <time>', 'gone after so long, such as 90s or 2h, and with the gateway'))
    .addOption(new Option('--session <label>', 'gone with this client session, and with the gateway'))
    .addOption(new Option('--no-wait', 'do not wait until it has come up'))
    .argument('<name>', 'its name')
    .argument('[urlOrCommand]', 'where it is, or what to run')
    .argument('[args...]', 'arguments of the command')
    .action(async (name: string, target: string | undefined, words: string[], flags: AddFlags) => {
      const { add } = await import('./change-servers.ts');
      const { definitionFrom, durationMs } = await import('./server-flags.ts');
      const given = input(flags);
      const definition = definitionFrom(flags, target, [...words, ...given.serverCommand]);
      const ttlMs = flags.ttl === undefined ? null : durationMs(flags.ttl);
      const options = { ttlMs, session: flags.session ?? null, replace: flags.replace === true };
      done(await add({ ...given, name, definition, options, wait: flags.wait }));
    });
  for (const [change, description] of Object.entries(CHANGES) as [keyof typeof CHANGES, string][]) {
    command(change, description)
      .argument('<server>', 'its name')
      .action(async (name: string, flags: GatewayFlags) => {
        const { changeServer } = await import('./change-servers.ts');
        done(await changeServer({ ...input(flags), name, change }));
      });
  }
  command('restore', 'go back to the last good snapshot of what was decided at run time, when that is damaged')
    .addOption(new Option('--empty', 'begin without it instead'))
    .action(async (flags: GatewayFlags & { readonly empty?: boolean }) => {
      const { restore } = await import('./restore.ts');
      done(await restore({ ...input(flags), empty: flags.empty === true }));
    });
}

function collected(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

import { Option } from 'commander';
import { URL_KINDS } from '../../model/server.ts';
import type { CommandParts } from '../command-input.ts';
import { collected, duration, type GatewayFlags } from '../flags.ts';
import type { ServerFlags } from './change-servers.ts';

interface AddFlags extends GatewayFlags, ServerFlags {
  readonly replace?: boolean;
  readonly ttl?: number;
  readonly session?: string;
  readonly wait: boolean;
}

const CHANGES = {
  remove: 'remove a server that was added at run time',
  restart: 'restart a server; without a name the gateway itself, if it is in the background',
  suspend: 'stop a server, of a file too, until it is resumed; lasts over restarts',
  resume: 'start a suspended server again',
} as const;

export function addServerCommands({ command, input, done }: CommandParts): void {
  command('add', 'add a server: trunkline add <name> <url>, or <name> -- command …')
    .addOption(
      new Option('-t, --transport <type>', 'transport of the server (default: detected)').choices([
        'stdio',
        ...URL_KINDS,
      ]),
    )
    .addOption(
      new Option(
        '-e, --env <NAME[=value]>',
        'environment variable; NAME alone and ${NAME} are read when the server starts',
      ).argParser(collected),
    )
    .addOption(
      new Option(
        '-H, --header <Name: value>',
        'header of every request; ${NAME} is expanded when the server starts',
      ).argParser(collected),
    )
    .addOption(
      new Option('-s, --scope <scope>', 'as in other clients; local and user mean the data folder').choices([
        'local',
        'user',
        'project',
      ]),
    )
    .addOption(new Option('--description <text>', 'text for people'))
    .addOption(new Option('--replace', 'replace the added server of this name'))
    .addOption(
      new Option('--ttl <time>', 'remove it after this time, such as 90s or 2h, and when the gateway stops').argParser(
        duration,
      ),
    )
    .addOption(new Option('--session <label>', 'remove it when this client session ends, and when the gateway stops'))
    .addOption(new Option('--no-wait', 'do not wait until the server has started'))
    .argument('<name>', 'name of the server')
    .argument('[urlOrCommand]', 'address, or command')
    .argument('[args...]', 'arguments of the command')
    .action(async (name: string, target: string | undefined, words: string[], flags: AddFlags) => {
      const { add, definitionFrom } = await import('./change-servers.ts');
      const given = input(flags);
      const definition = definitionFrom(flags, target, [...words, ...given.serverCommand]);
      const ttlMs = flags.ttl ?? null;
      const options = { ttlMs, session: flags.session ?? null, replace: flags.replace === true };
      done(await add({ ...given, name, definition, options, wait: flags.wait }));
    });
  for (const [change, description] of Object.entries(CHANGES) as [keyof typeof CHANGES, string][]) {
    command(change, description)
      .argument(change === 'restart' ? '[server]' : '<server>', 'name of the server')
      .action(async (name: string | undefined, flags: GatewayFlags) => {
        if (name === undefined) {
          const { restartGateway } = await import('../gateways/background.ts');
          done(await restartGateway(input(flags)));
          return;
        }
        const { changeServer } = await import('./change-servers.ts');
        done(await changeServer({ ...input(flags), name, change }));
      });
  }
  command('restore', 'restore the last good snapshot of a damaged run-time store')
    .addOption(new Option('--empty', 'start with an empty store instead'))
    .action(async (flags: GatewayFlags & { readonly empty?: boolean }) => {
      const { restore } = await import('./change-servers.ts');
      done(await restore({ ...input(flags), empty: flags.empty === true }));
    });
}

import { Option } from 'commander';
import { URL_KINDS } from '../../model/server.ts';
import type { CommandParts } from '../command-input.ts';
import { isRefusal } from '../credentials/store-secrets.ts';
import { collected, duration, type GatewayFlags } from '../flags.ts';
import type { RegistryFlags } from '../registry/registry-servers.ts';
import type { ServerFlags } from './change-servers.ts';

interface AddFlags extends GatewayFlags, ServerFlags, RegistryFlags {
  readonly replace?: boolean;
  readonly ttl?: number;
  readonly session?: string;
  readonly wait: boolean;
}

/** Source that servers are found in by name: an address, or a file or folder of server.json documents. */
const REGISTRY = () =>
  new Option(
    '--registry <source>',
    'registry: an address, or a file or folder of server.json documents (default: "registry" of the configuration, or that of the MCP project)',
  ).env('TRUNKLINE_REGISTRY');

const CHANGES = {
  remove: 'remove a server that was added at run time',
  restart: 'restart a server; without a name the gateway itself, if it is in the background',
  suspend: 'stop a server until it is resumed, across restarts; also one of a file',
  resume: 'start a suspended server again',
} as const;

export function addServerCommands({ command, input, done }: CommandParts): void {
  command('add', 'add a server: trunkline add [name] <url>, or [name] -- command …')
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
    .addOption(REGISTRY())
    .addOption(
      new Option('--set <NAME=value>', 'value of an input of a server of a registry or bundle').argParser(collected),
    )
    .addOption(new Option('--via <way>', 'of a server of a registry: remote, sse, npm, pypi, oci, nuget or mcpb'))
    .addOption(
      new Option('--as <name>', 'name of the server here, if it is not to be that of the registry, bundle or address'),
    )
    .argument(
      '[name]',
      'name of the server; alone, its name in a registry, as in io.github.owner/server, or an MCPB bundle',
    )
    .argument('[urlOrCommand]', 'address, command, or MCPB bundle')
    .argument('[args...]', 'arguments of the command')
    .action(async (word: string | undefined, target: string | undefined, words: string[], flags: AddFlags) => {
      const { add, definitionFrom, nameFrom, refuseTaken } = await import('./change-servers.ts');
      const given = input(flags);
      const ttlMs = flags.ttl ?? null;
      const options = { ttlMs, session: flags.session ?? null, replace: flags.replace === true };
      const isNamed = word !== undefined && !/^https?:\/\//i.test(word);
      const all = [word, target, ...words, ...given.serverCommand].filter((each) => each !== undefined);
      const { chosenRegistry, registryServer } = await import('../registry/registry-servers.ts');
      const isAlone = isNamed && all.length === 1;
      const isFile = given.serverCommand.length === 0 && all.length <= 2 && isBundle(all.at(-1) ?? '');
      const isListed = isAlone && (isRegistryName(word, flags) || (await chosenRegistry(given, flags)) !== null);
      if (!isListed && !isFile) {
        const command = isNamed ? all.slice(1) : all;
        const definition = definitionFrom(flags, command, given.terminal.cwd);
        const name = isNamed ? word : (flags.as ?? nameFrom(command));
        done(await add({ ...given, name, definition, options, wait: flags.wait }));
        return;
      }
      const as = all.length === 2 ? word! : (flags.as ?? null);
      const server = isFile
        ? await (await import('../registry/mcpb.ts')).bundleServer(given, all.at(-1)!, as, flags)
        : await registryServer(given, word!, flags);
      try {
        if (flags.replace !== true) await refuseTaken(given, server.name);
        await server.storeSecrets();
        done(await add({ ...given, ...server, options, wait: flags.wait }));
      } catch (error) {
        if (isRefusal(error)) await server.discard();
        throw error;
      }
    });
  command('search', 'find servers in a registry, to add them by name')
    .addOption(REGISTRY())
    .argument('[words...]', 'what their name or description has')
    .action(async (words: string[], flags: GatewayFlags & RegistryFlags) => {
      const { search } = await import('../registry/registry-servers.ts');
      done(await search(input(flags), words.join(' '), flags));
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

/** `.dxt` is the earlier name of the format. */
function isBundle(word: string): boolean {
  return /\.(mcpb|dxt)$/i.test(word);
}

/** A name with a domain, as registries have. A name without one counts only with a registry or an option of one. */
const REGISTRY_NAME = /^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+\/[\w.-]+(@[^/]+)?$/;

function isRegistryName(name: string, { set, via, as }: RegistryFlags): boolean {
  return REGISTRY_NAME.test(name) || set !== undefined || via !== undefined || as !== undefined;
}

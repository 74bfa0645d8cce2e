import { resolve } from 'node:path';
import { findConfig } from '../../config/files/find-config.ts';
import { registryOf } from '../../config/files/named-in.ts';
import { printable } from '../../model/printable.ts';
import { type CommandInput, print } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode } from '../exit-code.ts';
import { Inputs, type NewServer, nameOf } from './inputs.ts';
import { Registry, type RegistryEntry } from './registry.ts';
import { definitionOf, waysOf } from './server-json.ts';

export interface RegistryFlags {
  /** Where the configuration is not to say it. */
  readonly registry?: string;
  /** `NAME=value` of inputs. */
  readonly set?: readonly string[];
  readonly via?: string;
  readonly as?: string;
}

const OFFICIAL_REGISTRY = 'https://registry.modelcontextprotocol.io';

/** The registry that the user named: by a flag or variable, or in the configuration; null for that of the MCP project. */
export async function namedRegistry({ file, terminal }: CommandInput, flags: RegistryFlags): Promise<string | null> {
  if (flags.registry !== undefined) return flags.registry;
  const { cwd, env } = terminal;
  const meant = file === undefined ? findConfig(cwd) : resolve(cwd, file);
  return meant === null ? null : registryOf(meant, env);
}

/** `trunkline search <words>`. */
export async function search(input: CommandInput, text: string, flags: RegistryFlags): Promise<ExitCode> {
  const registry = (await namedRegistry(input, flags)) ?? OFFICIAL_REGISTRY;
  const found = (await new Registry(registry).search(text)).filter(({ status }) => status !== 'deleted');
  const width = Math.max(0, ...found.map(({ server }) => server.name.length));
  const line = ({ server, status }: RegistryEntry): string => {
    const ways = [...new Set(waysOf(server).map(({ via }) => via))].join(', ') || 'none that runs here';
    const about = [server.version, ways, ...(status === 'active' ? [] : [status]), server.description ?? ''];
    return printable(`${server.name.padEnd(width)}  ${about.join('  ')}`).replaceAll('\n', ' ');
  };
  const lines = () =>
    found.length === 0 ? `no server of ${registry} has these words\n` : `${found.map(line).join('\n')}\n`;
  print(input, { servers: found }, lines);
  return EXIT.ok;
}

/** `trunkline add <name of a registry>[@version]`. */
export async function registryServer(input: CommandInput, wanted: string, flags: RegistryFlags): Promise<NewServer> {
  const { terminal } = input;
  const [, whole = wanted, version = null] = /^([^@]+)@(.+)$/.exec(wanted) ?? [];
  const registry = (await namedRegistry(input, flags)) ?? OFFICIAL_REGISTRY;
  const { server, status } = await new Registry(registry).find(whole, version);
  if (status === 'deleted') throw usage(`${server.name} was deleted from ${registry}`);
  if (status === 'deprecated') terminal.err(`${server.name} is deprecated\n`);
  const ways = waysOf(server);
  const kinds = [...new Set(ways.map(({ via }) => via))];
  const way = ways.find(({ via }) => flags.via === undefined || via === flags.via);
  if (way === undefined) {
    const has =
      kinds.length === 0
        ? 'has no way that runs here; ways are remotes, and npm, PyPI, OCI, NuGet and MCPB packages on stdio'
        : `has: ${kinds.join(', ')}`;
    throw usage(`${server.name} ${has}`);
  }
  const others = kinds.filter((via) => via !== way.via);
  if (others.length > 0) terminal.err(`taken: ${way.via}; others with --via: ${others.join(', ')}\n`);
  const name = flags.as ?? nameOf(server.name);
  if (way.via === 'mcpb' && 'package' in way) {
    const { bundleServer } = await import('./mcpb.ts');
    return bundleServer(input, { ...way.package, registry }, name, flags);
  }
  const inputs = new Inputs(input, name, flags.set ?? []);
  return inputs.server(await definitionOf(way, server.description, inputs));
}

function usage(message: string): CommandError {
  return new CommandError(EXIT.usage, message);
}

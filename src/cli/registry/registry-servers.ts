import { resolve } from 'node:path';
import { findConfig } from '../../config/files/find-config.ts';
import { McpRegistry, namedRegistry, OFFICIAL_REGISTRY, type RegistryEntry } from '../../mcp-registry/mcp-registry.ts';
import { definitionOf, viasOf, waysOf } from '../../mcp-registry/server-json.ts';
import { serverNameOf } from '../../model/names.ts';
import { printable } from '../../model/printable.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { Inputs, type NewServer } from './inputs.ts';

export interface RegistryFlags {
  /** Overrides the registry of the configuration. */
  readonly registry?: string;
  /** `NAME=value` of inputs. */
  readonly set?: readonly string[];
  readonly via?: string;
  readonly as?: string;
}

/** The registry of `--registry`, its variable or the configuration; null for that of the MCP project. */
export async function chosenRegistry({ file, terminal }: CommandInput, flags: RegistryFlags): Promise<string | null> {
  if (flags.registry !== undefined) return flags.registry;
  const { cwd, env } = terminal;
  return namedRegistry(file === undefined ? findConfig(cwd) : resolve(cwd, file), env);
}

async function registryOf(input: CommandInput, flags: RegistryFlags): Promise<McpRegistry> {
  return new McpRegistry((await chosenRegistry(input, flags)) ?? OFFICIAL_REGISTRY, input.terminal.env);
}

/** `trunkline search <words>`. */
export async function search(input: CommandInput, text: string, flags: RegistryFlags): Promise<ExitCode> {
  const registry = await registryOf(input, flags);
  const found = (await registry.search(text)).filter(({ status }) => status !== 'deleted');
  const width = Math.max(0, ...found.map(({ server }) => server.name.length));
  const line = ({ server, status }: RegistryEntry): string => {
    const ways = viasOf(waysOf(server)).join(', ') || 'none that runs here';
    const about = [server.version, ways, ...(status === 'active' ? [] : [status]), server.description ?? ''];
    return printable(`${server.name.padEnd(width)}  ${about.join('  ')}`).replaceAll('\n', ' ');
  };
  const lines = () =>
    found.length === 0 ? `no server of ${registry.source} has these words\n` : `${found.map(line).join('\n')}\n`;
  print(input, { servers: found }, lines);
  return EXIT.ok;
}

/** `trunkline add <name of a registry>[@version]`. */
export async function registryServer(input: CommandInput, wanted: string, flags: RegistryFlags): Promise<NewServer> {
  const { terminal } = input;
  const registry = await registryOf(input, flags);
  const { server, status, ways, way } = await registry.runnable(wanted, flags.via);
  if (status === 'deprecated') terminal.err(`${server.name} is deprecated\n`);
  const others = ways.filter((via) => via !== way.via);
  if (others.length > 0) terminal.err(`taken: ${way.via}; others with --via: ${others.join(', ')}\n`);
  const name = flags.as ?? serverNameOf(server.name);
  if (way.via === 'mcpb' && 'package' in way) {
    const { bundleServer } = await import('./mcpb.ts');
    return bundleServer(input, { ...way.package, registry: registry.source }, name, flags);
  }
  const inputs = new Inputs(input, name, flags.set ?? []);
  return inputs.build(await definitionOf(way, server.description, inputs));
}

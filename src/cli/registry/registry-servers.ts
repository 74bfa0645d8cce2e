import { resolve } from 'node:path';
import { findConfig } from '../../config/files/find-config.ts';
import { registryOf } from '../../config/files/named-in.ts';
import { SERVER_NAME_PATTERN } from '../../model/names.ts';
import { printable } from '../../model/printable.ts';
import { type CommandInput, print, type Terminal } from '../command-input.ts';
import { secretAccess } from '../credentials/secrets.ts';
import { CommandError, EXIT, type ExitCode } from '../exit-code.ts';
import { Registry, type RegistryEntry } from './registry.ts';
import { definitionOf, type Given, type Input, literal, type Runs, waysOf } from './server-json.ts';

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

/** What of a registry is added, and what has to be kept as a secret first. */
export interface RegistryServer {
  readonly name: string;
  readonly definition: object;
  keepSecrets(): Promise<void>;
}

/** `trunkline add <name of a registry>[@version]`. */
export async function registryServer(
  input: CommandInput,
  wanted: string,
  flags: RegistryFlags,
): Promise<RegistryServer> {
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
        ? 'has no way that runs here; ways are remotes, and npm, PyPI, OCI and NuGet packages on stdio'
        : `has: ${kinds.join(', ')}`;
    throw usage(`${server.name} ${has}`);
  }
  const others = kinds.filter((via) => via !== way.via);
  if (others.length > 0) terminal.err(`taken: ${way.via}; others with --via: ${others.join(', ')}\n`);
  const name = flags.as ?? nameOf(server.name);
  if (!SERVER_NAME_PATTERN.test(name)) throw usage(`"${name}" is no name of a server; give one with --as`);
  const inputs = new Inputs(name, flags.set ?? [], terminal);
  const definition = await definitionOf(way, server.description, inputs);
  inputs.complain();
  terminal.err(`${printable(`${name} will be: ${lineOf(definition)}`)}\n`);
  return { name, definition, keepSecrets: () => keepSecrets(input, inputs.secrets) };
}

/** What runs, or its address. */
function lineOf({ command = '', args = [], url }: Runs): string {
  return url ?? [command, ...args].join(' ');
}

/** What comes behind the `/`, in letters that a name may have. */
function nameOf(whole: string): string {
  return (whole.split('/')[1] ?? whole).replaceAll(/[^A-Za-z0-9.-]+/g, '-').slice(0, 48);
}

async function keepSecrets(input: CommandInput, secrets: ReadonlyMap<string, string>): Promise<void> {
  if (secrets.size === 0) return;
  const store = await secretAccess(input);
  try {
    for (const [name, value] of secrets) await store.changes.put(name, value);
  } finally {
    await store.close();
  }
}

/** Values of inputs: from `--set`, else from the person, else the default. Complains of all that lack at once. */
class Inputs implements Given {
  readonly secrets = new Map<string, string>();
  readonly #server: string;
  readonly #set = new Map<string, string[]>();
  readonly #terminal: Terminal;
  readonly #used = new Set<string>();
  readonly #known = new Map<string, readonly string[] | null>();
  readonly #lacking: string[] = [];

  constructor(server: string, set: readonly string[], terminal: Terminal) {
    this.#server = server;
    this.#terminal = terminal;
    for (const text of set) {
      const cut = text.indexOf('=');
      if (cut <= 0) throw usage('--set takes a name and a value, as in --set API_KEY=value');
      const name = text.slice(0, cut);
      this.#set.set(name, [...(this.#set.get(name) ?? []), text.slice(cut + 1)]);
    }
  }

  async value(name: string, input: Input): Promise<readonly string[] | null> {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    this.#used.add(name);
    const values = await this.#valuesOf(name, input);
    const wrong = values?.find((value) => input.choices !== undefined && !input.choices.includes(value));
    if (wrong !== undefined) throw usage(`${name} is one of: ${input.choices!.join(', ')}`);
    const kept =
      values === null ? null : input.isSecret === true ? [this.#secret(name, values[0]!)] : values.map(literal);
    this.#known.set(name, kept);
    return kept;
  }

  complain(): void {
    const known = [...this.#used].join(', ');
    const unknown = [...this.#set.keys()].filter((name) => !this.#used.has(name));
    if (unknown.length > 0)
      throw usage(
        `${unknown.join(', ')} of --set is no input of this server${known === '' ? '' : `; it has: ${known}`}`,
      );
    if (this.#lacking.length === 0) return;
    throw usage(
      `values are missing; give them with --set NAME=value:\n${this.#lacking.map((line) => `    ${line}`).join('\n')}`,
    );
  }

  async #valuesOf(name: string, input: Input): Promise<readonly string[] | null> {
    const { isRequired = false, isSecret = false, default: usual, description = '', choices } = input;
    const set = this.#set.get(name);
    if (set !== undefined) return set;
    if (usual !== undefined) return [usual];
    if (!isRequired) return null;
    const about = printable(`${description}${choices === undefined ? '' : ` [${choices.join(', ')}]`}`);
    const answer = await this.#terminal.ask?.({ id: name, description: about || 'Value', password: isSecret });
    if (answer) return [answer];
    this.#lacking.push(`${name}  ${about}${isSecret ? ' (a secret)' : ''}`);
    return null;
  }

  /** The reference to it; a reference that the user wrote stays one. */
  #secret(name: string, value: string): string {
    if (/^\$\{[^}]+\}$/.test(value)) return value;
    const secret = `${this.#server}-${name.toLowerCase()}`.replaceAll(/[^A-Za-z0-9_.-]/g, '-');
    this.secrets.set(secret, value);
    return `\${secret:${secret}}`;
  }
}

function usage(message: string): CommandError {
  return new CommandError(EXIT.usage, message);
}

/** The part of `server.json` of the MCP registry, schema 2025-12-11, that describes how to run a server. */
export interface ServerJson {
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  readonly packages?: readonly Package[];
  readonly remotes?: readonly PackageTransport[];
}

export interface Package {
  readonly registryType: string;
  readonly identifier: string;
  readonly version?: string;
  /** SHA-256 of an MCPB bundle, in hexadecimal digits. */
  readonly fileSha256?: string;
  readonly runtimeHint?: string;
  readonly transport?: PackageTransport;
  readonly runtimeArguments?: readonly Argument[];
  readonly packageArguments?: readonly Argument[];
  readonly environmentVariables?: readonly NamedInput[];
}

export interface PackageTransport {
  readonly type: string;
  readonly url?: string;
  readonly headers?: readonly NamedInput[];
  readonly variables?: Readonly<Record<string, Input>>;
}

/** A value that the publisher set or that the user provides. */
export interface Input {
  readonly description?: string;
  readonly isRequired?: boolean;
  readonly isSecret?: boolean;
  /** `{name}` in it is a variable. */
  readonly value?: string;
  readonly default?: string;
  readonly choices?: readonly string[];
  readonly variables?: Readonly<Record<string, Input>>;
}

export interface NamedInput extends Input {
  readonly name: string;
}

export interface Argument extends Input {
  readonly type: 'positional' | 'named';
  readonly name?: string;
  readonly valueHint?: string;
  readonly isRepeated?: boolean;
}

/** One way to run a server: `remote`, or the kind of its package. */
export type Way =
  | { readonly via: string; readonly remote: PackageTransport }
  | { readonly via: string; readonly package: Package };

interface Launcher {
  readonly command: string;
  /** Other commands that take the same arguments. */
  readonly hints: readonly string[];
  /** The arguments of the launcher, including those of the runtime, up to the arguments of the package. */
  words(one: Package, runtime: readonly string[], variables: readonly string[]): string[];
}

/** An identifier must not begin like an option: it would be an option of the launcher. */
const IDENTIFIER = /^[A-Za-z0-9@][\w@./:+-]{0,255}$/;
const VERSION = /^[A-Za-z0-9][\w.+!-]{0,127}$/;

/** Why a package cannot run here; null if it can. */
function packageFault({ registryType, identifier, version, transport }: Package): string | null {
  const { type = 'stdio', url } = transport ?? {};
  if (registryType !== 'mcpb' && !Object.hasOwn(LAUNCHERS, registryType))
    return `only packages of ${Object.keys(LAUNCHERS).join(', ')} and mcpb can be started`;
  if (type !== 'stdio')
    return `it speaks ${type}, and a package is started on stdio only: start it yourself and add its address${url == null ? '' : `, such as ${url}`}`;
  if (typeof identifier !== 'string') return 'it has no identifier';
  if (registryType === 'mcpb') return /^https?:\/\/./.test(identifier) ? null : 'its bundle has no address';
  const named = IDENTIFIER.test(identifier) && (version == null || VERSION.test(version));
  return named ? null : 'this is no name and version of a package';
}

const isKnown = ({ type }: PackageTransport): boolean => type === 'streamable-http' || type === 'sse';

/** What the registry has of a server that cannot run here, and why. */
export function whyNoWay({ remotes = [], packages = [] }: ServerJson): string {
  const found = [
    ...remotes.map(({ type, url }) => `the address ${url ?? ''} of the unknown type ${type}`),
    ...packages.map((one) => `the ${one.registryType} package ${versioned(one)}: ${packageFault(one)}`),
  ];
  return found.length === 0 ? 'neither a package nor an address' : found.join('; ');
}

function versioned({ identifier, version }: Package): string {
  return version == null ? (identifier ?? '(unnamed)') : `${identifier}@${version}`;
}

const LAUNCHERS: Readonly<Record<string, Launcher>> = {
  npm: {
    command: 'npx',
    hints: ['npx'],
    words: (one, runtime) => ['-y', ...runtime.filter((word) => word !== '-y'), versioned(one)],
  },
  pypi: { command: 'uvx', hints: ['uvx'], words: (one, runtime) => [...runtime, versioned(one)] },
  oci: {
    command: 'docker',
    hints: ['docker', 'podman'],
    words: ({ identifier, version }, runtime, variables) => [
      ...['run', '-i', '--rm'],
      ...variables.flatMap((name) => ['-e', name]),
      ...runtime.filter((word) => !['run', '-i', '--rm'].includes(word)),
      // Since 2025-10 the identifier of an image contains its version; before, the version was separate.
      version == null || /[:@][^/]*$/.test(identifier) ? identifier : `${identifier}:${version}`,
    ],
  },
  nuget: { command: 'dnx', hints: ['dnx'], words: (one, runtime) => [...runtime, versioned(one), '--yes', '--'] },
};

/** The ways to run the server here in the publisher's order, remotes before packages. */
export function waysOf({ remotes = [], packages = [] }: ServerJson): readonly Way[] {
  const remote = remotes
    .filter(isKnown)
    .map((one): Way => ({ via: one.type === 'sse' ? 'sse' : 'remote', remote: one }));
  const local = packages
    .filter((one) => packageFault(one) === null)
    .map((one): Way => ({ via: one.registryType, package: one }));
  return [...remote, ...local];
}

/** The kinds of the ways, each once. */
export function viasOf(ways: readonly Way[]): readonly string[] {
  return [...new Set(ways.map(({ via }) => via))];
}

/** The user's values of inputs, by input name; repeated inputs have several. */
export interface InputValues {
  /** Null if there is no value and none is required. A secret becomes a reference to a stored secret. */
  value(name: string, input: Input): Promise<readonly string[] | null>;
}

/** The part of a definition that describes how to run the server. */
export interface LaunchDefinition {
  readonly command?: string | undefined;
  readonly args?: readonly string[];
  readonly url?: string;
}

/** A definition in the form of a configuration file. */
export async function definitionOf(
  way: Way,
  description: string | undefined,
  given: InputValues,
): Promise<LaunchDefinition> {
  const about = description === undefined ? {} : { description };
  if ('remote' in way) {
    const { type, url, headers, variables } = way.remote;
    const fields = await named(headers ?? [], given);
    const definition = {
      ...about,
      type: type === 'sse' ? 'sse' : 'http',
      url: await filled(url ?? '', variables ?? {}, given),
      ...(fields.length === 0 ? {} : { headers: Object.fromEntries(fields) }),
    };
    return definition;
  }
  const one = way.package;
  const launcher = LAUNCHERS[one.registryType]!;
  const env = await named(one.environmentVariables ?? [], given);
  const runtime = await words(one.runtimeArguments ?? [], given);
  const own = await words(one.packageArguments ?? [], given);
  const command = launcher.hints.includes(one.runtimeHint ?? '') ? one.runtimeHint : launcher.command;
  const names = env.map(([name]) => name);
  return {
    ...about,
    command,
    args: withoutEnd([...launcher.words(one, runtime, names), ...own]),
    ...(env.length === 0 ? {} : { env: Object.fromEntries(env) }),
  };
}

/** Removes a trailing `--`. */
function withoutEnd(args: readonly string[]): readonly string[] {
  return args.at(-1) === '--' ? args.slice(0, -1) : args;
}

async function named(inputs: readonly NamedInput[], given: InputValues): Promise<[string, string][]> {
  const found: [string, string][] = [];
  for (const input of inputs) {
    const [value] = (await valuesOf(input.name, input, given)) ?? [];
    if (value !== undefined) found.push([input.name, value]);
  }
  return found;
}

/** Members that show that an option without a default takes a value. */
const VALUE_HINTS = ['format', 'isSecret', 'placeholder'];

async function words(args: readonly Argument[], given: InputValues): Promise<string[]> {
  const found: string[] = [];
  for (const [index, argument] of args.entries()) {
    const { type, valueHint } = argument;
    const name = literal(argument.name ?? '');
    const key = type === 'named' ? name.replace(/^-+/, '') : (valueHint ?? `argument${index + 1}`);
    const isFlag = type === 'named' && ['value', 'default', 'choices', 'variables'].every((one) => !(one in argument));
    const takesNothing = isFlag && !VALUE_HINTS.some((one) => one in argument);
    const input = takesNothing ? { ...argument, choices: ['true', 'false'] } : argument;
    const values = (await valuesOf(key, input, given)) ?? [];
    for (const value of argument.isRepeated === true ? values : values.slice(0, 1)) {
      if (type === 'positional') found.push(value);
      else if (!isFlag || !/^(?:true|false)$/.test(value)) found.push(name, value);
      else if (value === 'true') found.push(name);
    }
  }
  return found;
}

async function valuesOf(name: string, input: Input, given: InputValues): Promise<readonly string[] | null> {
  if (input.value === undefined) return given.value(name, input);
  return [await filled(input.value, input.variables ?? {}, given)];
}

/** Fills in variables; `{name}` without a variable stays. The publisher's text cannot contain references of the gateway. */
async function filled(text: string, variables: Readonly<Record<string, Input>>, given: InputValues): Promise<string> {
  let result = '';
  for (const piece of text.split(/(\{[^{}]+\})/)) {
    const name = piece.slice(1, -1);
    const isVariable = piece.startsWith('{') && Object.hasOwn(variables, name);
    const [value = ''] = isVariable ? ((await valuesOf(name, variables[name]!, given)) ?? []) : [literal(piece)];
    result = joined(result, value);
  }
  return result;
}

/** Joins two texts so that they do not form a reference together. */
export function joined(before: string, value: string): string {
  return before + (before.endsWith('$') && value.startsWith('{') ? `$${value}` : value);
}

/** Escapes text so that a definition keeps it unchanged. */
export function literal(text: string): string {
  return text.replaceAll('${', () => '$${');
}

import { homedir } from 'node:os';
import { delimiter, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { type InputValues, joined, type LaunchDefinition, literal } from '../../mcp-registry/server-json.ts';
import { printable } from '../../model/printable.ts';
import {
  faultIn,
  flag,
  type Infer,
  list,
  object,
  oneOf,
  optional,
  record,
  type Schema,
  text,
  union,
} from '../../model/schema.ts';
import { type CommandError, usage } from '../exit-code.ts';

const number: Schema<number> = { type: 'number' };
const RUN = { command: optional(text), args: optional(list(text)), env: optional(record(text)) };
const OPTION = object({
  type: oneOf(['string', 'number', 'boolean', 'directory', 'file']),
  title: optional(text),
  description: optional(text),
  required: optional(flag),
  default: optional(union(text, number, flag, list(text))),
  multiple: optional(flag),
  sensitive: optional(flag),
  min: optional(number),
  max: optional(number),
});
/** `manifest.json` of an MCPB bundle, manifest_version 0.1 to 0.4: the keys that say how to run the server. */
const MANIFEST = object({
  manifest_version: optional(text),
  /** `manifest_version` in the first bundles. */
  dxt_version: optional(text),
  name: text,
  version: text,
  description: optional(text),
  server: object({
    type: oneOf(['node', 'python', 'binary', 'uv']),
    entry_point: text,
    mcp_config: optional(object({ ...RUN, platform_overrides: optional(record(object(RUN))) })),
  }),
  user_config: optional(record(OPTION)),
  compatibility: optional(object({ platforms: optional(list(text)), runtimes: optional(record(text)) })),
});
export type BundleManifest = Infer<typeof MANIFEST>;
type UserOption = Infer<typeof OPTION>;

const VERSIONS = /^0\.[1-4]$/;

/** Throws CommandError with the first fault of the manifest. */
export function manifestOf(json: string): BundleManifest {
  let value: unknown;
  try {
    value = JSON.parse(json.replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw fault(`is no JSON: ${(cause as Error).message}`);
  }
  const wrong = faultIn(MANIFEST, value);
  if (wrong !== null) throw fault(`is not valid: ${wrong}`);
  const manifest = value as BundleManifest;
  const version = manifest.manifest_version ?? manifest.dxt_version ?? '(none)';
  if (!VERSIONS.test(version)) throw fault(`has manifest_version ${version}; 0.1 to 0.4 are known`);
  const platforms = manifest.compatibility?.platforms ?? [process.platform];
  if (!platforms.includes(process.platform))
    throw fault(`says that the server runs on ${platforms.join(', ')} only; this is ${process.platform}`);
  return manifest;
}

/** Values of variables, in the syntax of definitions; an option can have several. */
type Values = ReadonlyMap<string, readonly string[]>;

/** Folder of a bundle, and the source of its options. */
export interface BundlePlace {
  readonly folder: string;
  /** Base of the user's relative paths. */
  readonly cwd: string;
  readonly given: InputValues;
  has(name: string): boolean;
}

/**
 * The definition of a bundle that is extracted to `folder`. Text of the bundle is literal; only a value that the user gives for a
 * sensitive option may become a reference.
 */
export async function bundleDefinition(manifest: BundleManifest, place: BundlePlace): Promise<LaunchDefinition> {
  const { server, description, user_config: options = {} } = manifest;
  if (!place.has(server.entry_point))
    throw fault(`names the entry_point ${JSON.stringify(server.entry_point)}, which is not in the bundle`);
  const { command, args = [], env = {} } = runOf(server);
  const values = new Map<string, readonly string[]>(Object.entries(foldersFrom(place.folder)));
  for (const [name, option] of Object.entries(options)) {
    values.set(`user_config.${name}`, await chosen(name, option, values, place));
  }
  const variables = Object.entries(env).filter(([, word]) => spread(word, values).length > 0);
  const definition = {
    ...(description === undefined ? {} : { description }),
    command: programOf(filled(command, values), place),
    args: args.flatMap((word) => spread(word, values)),
    ...(variables.length === 0
      ? {}
      : { env: Object.fromEntries(variables.map(([name, word]) => [name, filled(word, values)])) }),
    cwd: literal(place.folder),
  };
  return definition;
}

/** Command, arguments and environment for this platform. */
function runOf({ type, entry_point, mcp_config: config }: BundleManifest['server']) {
  if (config === undefined && type === 'uv')
    return { command: 'uv', args: ['run', '--directory', '${__dirname}', entry_point] };
  const { command, args, env } = { ...config, ...config?.platform_overrides?.[process.platform] };
  if (command === undefined || command === '') throw fault('has no server.mcp_config.command');
  return { command, args, env };
}

function foldersFrom(folder: string): Record<string, readonly string[]> {
  const home = (name: string): string[] => [literal(join(homedir(), name))];
  return {
    __dirname: [literal(folder)],
    pathSeparator: [sep],
    '/': [sep],
    HOME: home(''),
    DESKTOP: home('Desktop'),
    DOCUMENTS: home('Documents'),
    DOWNLOADS: home('Downloads'),
  };
}

/** A command with a path must be a file of the bundle, or an absolute path outside it. */
function programOf(program: string, { folder, has }: BundlePlace): string {
  if (!/[/\\]/.test(program) && !has(program)) return program;
  const path = resolve(folder, program);
  const inside = relative(folder, path).replaceAll(sep, '/');
  const file = [inside, ...(process.platform === 'win32' ? [`${inside}.exe`] : [])].find(has);
  if (file !== undefined) return literal(join(folder, file));
  if (isAbsolute(program) && inside.startsWith('../')) return program;
  throw fault(`has the command ${JSON.stringify(program)}, which is not in the bundle`);
}

/** The values of an option: the given ones, else the defaults. */
async function chosen(
  name: string,
  option: UserOption,
  values: Values,
  place: BundlePlace,
): Promise<readonly string[]> {
  const { type, default: usual, required = false, multiple = false, sensitive: isSecret = false } = option;
  const defaults = [usual ?? []]
    .flat()
    .map(String)
    .filter((value) => value !== '');
  const given = await place.given.value(name, {
    description: option.description ?? option.title ?? '',
    isRequired: required && defaults.length === 0,
    isSecret,
    ...(type === 'boolean' ? { choices: ['true', 'false'] } : {}),
  });
  const chosen = given ?? defaults.map((value) => filled(value, values));
  if (chosen.length > 1 && !multiple) throw usage(`${name} takes one value`);
  if (required && given?.includes('')) throw usage(`${name} needs a value`);
  // A reference to the stored secret.
  if (isSecret && given !== null) return chosen;
  if (type === 'number') for (const value of chosen) checkNumber(name, value, option);
  if (type !== 'directory' && type !== 'file') return chosen;
  return chosen.map((path) =>
    resolve(
      place.cwd,
      path.replace(/^~(?=$|[/\\])/, () => literal(homedir())),
    ),
  );
}

function checkNumber(name: string, value: string, { min = -Infinity, max = Infinity }: UserOption): void {
  const given = value.trim() === '' ? Number.NaN : Number(value);
  if (given >= min && given <= max) return;
  const bounds = `${min > -Infinity ? ` from ${min}` : ''}${max < Infinity ? ` to ${max}` : ''}`;
  throw usage(`${name} has to be a number${bounds}, and is ${JSON.stringify(value)}`);
}

const VARIABLE = /(\$\{[^{}]+\})/;

/** Expands a word to one word per value of an option with several values, and to none if it is an option without values. */
function spread(word: string, values: Values): readonly string[] {
  const names = word.split(VARIABLE).filter((piece) => values.has(nameIn(piece)));
  if (names.length === 1 && names[0] === word && values.get(nameIn(word))!.length === 0) return [];
  const many = names.map(nameIn).find((name) => values.get(name)!.length > 1);
  if (many === undefined) return [filled(word, values)];
  return values.get(many)!.map((value) => filled(word, new Map([...values, [many, [value]]])));
}

/** Several values in one text are joined as in PATH. A variable that bundles do not have stays literal text. */
function filled(text: string, values: Values): string {
  return text
    .split(VARIABLE)
    .map((piece) => values.get(nameIn(piece))?.join(delimiter) ?? literal(piece))
    .reduce(joined, '');
}

/** The name in a piece `${name}`; empty for text. */
function nameIn(piece: string): string {
  return piece.startsWith('${') && piece.endsWith('}') ? piece.slice(2, -1) : '';
}

function fault(why: string): CommandError {
  return usage(printable(`manifest.json of the bundle ${why}`));
}

import { isObject, parseObject } from '../model/json-object.ts';
import type { ToolFilter } from '../model/server.ts';
import type { HandshakeResult, ListKind, ServerCatalog } from '../model/server-catalog.ts';
import { isClientRequest } from '../protocol/methods.ts';
import { declaresTasks } from '../protocol/tasks.ts';

export type ListPolicy = (kind: ListKind, name: string) => boolean;

/** One server of an aggregate. */
export interface CatalogMember {
  readonly server: string;
  /** Which of its items the policies list; null for all. */
  readonly lists: ListPolicy | null;
  /** The server's catalog; null if it was never listed. */
  readonly catalog: ServerCatalog | null;
}

/** The declared capabilities that an aggregate needs. */
export interface Declared {
  readonly tools: boolean;
  readonly prompts: boolean;
  readonly resources: boolean;
  readonly subscribe: boolean;
  readonly logging: boolean;
  readonly completions: boolean;
  /** Whether its tools can answer with a task, as its era declares it. */
  readonly tasks: boolean;
  /** Settings by extension. Stateful servers may declare theirs under `experimental`. */
  readonly extensions: Readonly<Record<string, unknown>>;
  readonly experimental: Readonly<Record<string, unknown>>;
}

const DECLARED = new WeakMap<HandshakeResult, Declared>();

/** Parses a server's capabilities, once per handshake. A text that is not a JSON object declares nothing. */
export function declaredBy(handshake: HandshakeResult): Declared {
  let declared = DECLARED.get(handshake);
  if (declared === undefined) DECLARED.set(handshake, (declared = parseDeclared(handshake)));
  return declared;
}

function parseDeclared(handshake: HandshakeResult): Declared {
  const parsed = parseObject(handshake.capabilities) ?? {};
  const resources = parsed['resources'];
  return {
    tools: isObject(parsed['tools']),
    prompts: isObject(parsed['prompts']),
    resources: isObject(resources),
    subscribe: isObject(resources) && resources['subscribe'] === true,
    logging: isObject(parsed['logging']),
    completions: isObject(parsed['completions']),
    tasks: declaresTasks(handshake),
    extensions: objectOf(parsed['extensions']) ?? {},
    experimental: objectOf(parsed['experimental']) ?? {},
  };
}

/** Whether the operator's filter allows the tool. */
export function filterAllows(filter: ToolFilter, tool: string): boolean {
  return (filter.include === null || filter.include.has(tool)) && !filter.exclude.has(tool);
}

/** Whether the filter can exclude any tool. */
export function filtersAny({ include, exclude }: ToolFilter): boolean {
  return include !== null || exclude.size > 0;
}

function objectOf(value: unknown): Record<string, unknown> | null {
  return isObject(value) ? value : null;
}

const UI = 'io.modelcontextprotocol/ui';
export const SKILLS = 'io.modelcontextprotocol/skills';
/** The only method of SEP-2640 whose name does not contain the extension's name. */
const READ_DIRECTORY = 'resources/directory/read';
/** Extensions that have only methods that the gateway knows. */
const KNOWN: ReadonlySet<string> = new Set([UI, SKILLS, 'io.modelcontextprotocol/tasks']);

/** Whether SEP-2640 defines the method. All of its methods only read. */
export function isOfSkills(method: string): boolean {
  return method === 'skills/list' || method === 'skills/get' || method === READ_DIRECTORY;
}

/**
 * The members that may implement the method. No message names its extension, so the method's first part is compared with the
 * parts of declared ids (`acme/find`: `com.acme/search`, `org.x/acme`); else any extension unknown to the gateway counts.
 */
export function serversWithMethod(
  members: readonly CatalogMember[],
  declared: ReadonlyMap<string, Declared>,
  method: string,
): readonly string[] {
  if (isClientRequest(method)) return [];
  const having = (has: (id: string, settings: unknown) => boolean): readonly string[] =>
    members.flatMap(({ server }) => {
      const { extensions, experimental } = declared.get(server) ?? {};
      return Object.entries({ ...experimental, ...extensions }).some(([id, settings]) => has(id, settings))
        ? [server]
        : [];
    });
  if (method === READ_DIRECTORY) return having((id, settings) => id === SKILLS && readsDirectories(settings));
  if (isOfSkills(method)) return having((id) => id === SKILLS);
  const [first] = method.split('/');
  const named = having((id) => id.split(/[./]/).includes(first!));
  return named.length > 0 ? named : having((id) => !KNOWN.has(id));
}

function readsDirectories(settings: unknown): boolean {
  return (settings as { readonly directoryRead?: unknown } | null)?.directoryRead === true;
}

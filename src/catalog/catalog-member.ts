import type { Era } from '../model/message.ts';
import type { ToolFilter } from '../model/server.ts';
import type { ListKind, ServerCatalog } from '../model/server-catalog.ts';
import { isClientRequest } from '../protocol/methods.ts';
import { declaresTasks } from '../protocol/tasks.ts';

export type ListPolicy = (kind: ListKind, name: string) => boolean;

/** One server as a part of an aggregate. */
export interface CatalogMember {
  readonly server: string;
  /** Which of its items the gateway's policies list; null for all. */
  readonly lists: ListPolicy | null;
  /** What is known of it; null when it was never listed. */
  readonly catalog: ServerCatalog | null;
}

/** What a server declared, as far as an aggregate has to know. */
export interface Declared {
  readonly tools: boolean;
  readonly prompts: boolean;
  readonly resources: boolean;
  readonly subscribe: boolean;
  readonly logging: boolean;
  readonly completions: boolean;
  /** Its tools can answer with a task, in the words of its era. */
  readonly tasks: boolean;
  /** Settings by extension. Servers of the stateful revisions may have theirs under `experimental`. */
  readonly extensions: Readonly<Record<string, unknown>>;
  readonly experimental: Readonly<Record<string, unknown>>;
}

/** Reads a server's capabilities; nothing is declared by a text that is no object. */
export function declaredBy(capabilities: string, era: Era): Declared {
  const parsed = parseObject(capabilities) ?? {};
  const resources = parsed['resources'];
  return {
    tools: isObject(parsed['tools']),
    prompts: isObject(parsed['prompts']),
    resources: isObject(resources),
    subscribe: isObject(resources) && resources['subscribe'] === true,
    logging: isObject(parsed['logging']),
    completions: isObject(parsed['completions']),
    tasks: declaresTasks({ era, capabilities }),
    extensions: objectOf(parsed['extensions']) ?? {},
    experimental: objectOf(parsed['experimental']) ?? {},
  };
}

export function parseObject(json: string): Record<string, unknown> | null {
  try {
    return objectOf(JSON.parse(json));
  } catch {
    return null;
  }
}

/** Whether the operator's filter lets the tool through. */
export function filterAllows(filter: ToolFilter, tool: string): boolean {
  return (filter.include === null || filter.include.has(tool)) && !filter.exclude.has(tool);
}

/** Whether the filter may keep anything back. */
export function filtersAny({ include, exclude }: ToolFilter): boolean {
  return include !== null || exclude.size > 0;
}

function objectOf(value: unknown): Record<string, unknown> | null {
  return isObject(value) ? value : null;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const UI = 'io.modelcontextprotocol/ui';
export const SKILLS = 'io.modelcontextprotocol/skills';
/** The one method of SEP-2640 whose name does not tell the extension. */
const READ_DIRECTORY = 'resources/directory/read';
/** Extensions whose methods the gateway knows, and which have no others. */
const KNOWN: ReadonlySet<string> = new Set([UI, SKILLS, 'io.modelcontextprotocol/tasks']);

/** Whether the method is one of SEP-2640, all of which only read. */
export function isOfSkills(method: string): boolean {
  return method === 'skills/list' || method === 'skills/get' || method === READ_DIRECTORY;
}

/**
 * Members with this method: of an extension with the method's first part in its id (`acme/find`: `com.acme/search`,
 * `org.x/acme`), else of any extension that the gateway does not know. No message names its extension.
 */
export function serversWithMethod(
  members: readonly CatalogMember[],
  declared: ReadonlyMap<string, Declared>,
  method: string,
): readonly string[] {
  if (isClientRequest(method, 'stateful') || isClientRequest(method, 'stateless')) return [];
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

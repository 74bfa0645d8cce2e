import { isClientRequest } from '../protocol/methods.ts';
import type { CatalogMember, Declared } from './catalog-member.ts';

const UI = 'io.modelcontextprotocol/ui';
export const SKILLS = 'io.modelcontextprotocol/skills';
/** The one method of SEP-2640 whose name does not tell the extension. */
export const READ_DIRECTORY = 'resources/directory/read';
/** Extensions whose methods the gateway knows, and which have no others. */
const KNOWN: ReadonlySet<string> = new Set([UI, SKILLS, 'io.modelcontextprotocol/tasks']);

/** Whether the method is one of SEP-2640, all of which only read. */
export function isOfSkills(method: string): boolean {
  return method === 'skills/list' || method === 'skills/get' || method === READ_DIRECTORY;
}

/**
 * Members that declare an extension with this method. No message says which extension a method is of: it is taken for that
 * of an extension with the method's first part in its id (`acme/find`: `com.acme/search`, `org.x/acme`); where no member declares
 * such a one, for that of any extension that the gateway does not know.
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

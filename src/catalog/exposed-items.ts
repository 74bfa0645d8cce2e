import type { Era } from '../model/message.ts';
import type { Capability, ListKind, ServerCatalog } from '../model/server-catalog.ts';
import { field } from '../protocol/fields.ts';
import { type HeaderParams, scanHeaderParams } from '../protocol/headers.ts';
import { listOf } from '../protocol/methods.ts';
import { type Edit, envelope, splice } from '../protocol/splice.ts';
import { toolToStateful, wrapsOutput } from '../protocol/stateful/to-stateful.ts';
import { toolToStateless } from '../protocol/stateless/to-stateless.ts';
import { toolWithTasks } from '../protocol/tasks.ts';
import { type CatalogMember, declaredBy } from './catalog-member.ts';
import { pageItems } from './drift/guarded-catalog.ts';
import { appLinkEdits } from './exposed-uris.ts';

/** An item of a server under its exposed name; the key of `item` is the server's own name. */
export interface ExposedItem {
  readonly server: string;
  readonly exposed: string;
  readonly item: Capability;
}

/** The items for clients of the era: the bytes of their servers, translated if the eras differ, with exposed names. */
export function writeItems(
  kind: ListKind,
  items: readonly ExposedItem[],
  members: readonly CatalogMember[],
  era: Era,
): readonly Buffer[] {
  const { itemKey } = listOf(kind);
  const eras = new Map(members.map(({ server, catalog }) => [server, catalog?.handshake.era ?? era]));
  const tasks = new Set(
    members.flatMap(({ server, catalog }) => (catalog !== null && declaredBy(catalog.handshake).tasks ? [server] : [])),
  );
  return items.flatMap(({ server, exposed, item }) => {
    const bytes = kind === 'tools' ? toolFor(era, item, eras.get(server) ?? era, tasks.has(server)) : item.bytes;
    if (bytes === null) return [];
    return [renamed(bytes, itemKey, exposed === item.key ? null : exposed, server)];
  });
}

/** `exposed`: the new name; null keeps the own name. */
function renamed(bytes: Buffer, key: string, exposed: string | null, server: string): Buffer {
  const object = envelope(bytes);
  const edits: Edit[] = appLinkEdits(bytes, field(bytes, object.start, object.end, '_meta'), server);
  const value = exposed === null ? null : field(bytes, object.start, object.end, key);
  if (value !== null) edits.push({ ...value, insert: JSON.stringify(exposed) });
  return splice(bytes, edits);
}

/** Facts of a tool's definition that calls depend on. */
interface ToolFacts {
  /** Parameters that are mirrored into headers, or why the declaration is invalid. */
  readonly headers: HeaderParams;
  /** Whether structured results are wrapped for stateful clients. */
  readonly wrapped: boolean;
}

const FACTS = new WeakMap<Capability, ToolFacts>();

/** Computed once per definition. */
export function toolFacts(tool: Capability): ToolFacts {
  let facts = FACTS.get(tool);
  if (facts === undefined) {
    facts = { headers: scanHeaderParams(tool.bytes), wrapped: wrapsOutput(tool.bytes) };
    FACTS.set(tool, facts);
  }
  return facts;
}

const MISDECLARED = new WeakMap<ServerCatalog, ReadonlyMap<string, string>>();

/** The tools in a server's own pages with an invalid `x-mcp-header`, with the reason. Computed once per catalog. */
export function misdeclared(catalog: ServerCatalog): ReadonlyMap<string, string> {
  let tools = MISDECLARED.get(catalog);
  if (tools === undefined) {
    const items = catalog.lists.tools.pages.flatMap((page) => pageItems('tools', page, 0, page.length));
    tools = new Map(
      items.flatMap(({ key, bytes }) => {
        const headers = scanHeaderParams(bytes);
        return headers.ok ? [] : [[key, headers.reason] as const];
      }),
    );
    MISDECLARED.set(catalog, tools);
  }
  return tools;
}

/** The definition in the client's era; null if unusable. `tasks`: the server can answer with tasks. */
function toolFor(era: Era, tool: Capability, serverEra: Era, tasks: boolean): Buffer | null {
  // Clients must drop such a tool (streamable-http §Custom Headers), so the gateway does not list it.
  if (era === 'stateless' && !toolFacts(tool).headers.ok) return null;
  if (era === serverEra) return tool.bytes;
  if (era === 'stateless') return toolToStateless(tool.bytes);
  return tasks ? toolWithTasks(toolToStateful(tool.bytes)) : toolToStateful(tool.bytes);
}

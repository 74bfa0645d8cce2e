import type { Era } from '../model/message.ts';
import type { Capability, ListKind } from '../model/server-catalog.ts';
import { field } from '../protocol/fields.ts';
import { listOf } from '../protocol/methods.ts';
import { type Edit, envelope, splice } from '../protocol/splice.ts';
import { type CatalogMember, declaredBy } from './catalog-member.ts';
import { appLinkEdits } from './exposed-uris.ts';
import { toolFor } from './tool-facts.ts';

export interface ExposedItem {
  readonly server: string;
  readonly exposed: string;
  readonly item: Capability;
}

/** The items as clients of the era see them: their servers' bytes, with the exposed name in place of the own one. */
export function writeItems(
  kind: ListKind,
  items: readonly ExposedItem[],
  members: readonly CatalogMember[],
  era: Era,
): readonly Buffer[] {
  const { itemKey } = listOf(kind);
  const eras = new Map(members.map(({ server, catalog }) => [server, catalog?.hello.era ?? era]));
  const tasks = new Set(members.flatMap(({ server, catalog }) => (hasTasks(catalog) ? [server] : [])));
  return items.flatMap(({ server, exposed, item }) => {
    const bytes = kind === 'tools' ? toolFor(era, item, eras.get(server) ?? era, tasks.has(server)) : item.bytes;
    if (bytes === null) return [];
    return [renamed(bytes, itemKey, exposed === item.key ? null : exposed, server)];
  });
}

function hasTasks(catalog: CatalogMember['catalog']): boolean {
  return catalog !== null && declaredBy(catalog.hello.capabilities, catalog.hello.era).tasks;
}

/** `exposed`: the name in place of the own one, null where that stays. */
function renamed(bytes: Buffer, key: string, exposed: string | null, server: string): Buffer {
  const object = envelope(bytes);
  const edits: Edit[] = appLinkEdits(bytes, field(bytes, object.start, object.end, '_meta'), server);
  const value = exposed === null ? null : field(bytes, object.start, object.end, key);
  if (value !== null) edits.push({ ...value, insert: JSON.stringify(exposed) });
  return splice(bytes, edits);
}

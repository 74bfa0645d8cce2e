import type { Era } from '../model/message.ts';
import type { Capability, ListKind } from '../model/server-catalog.ts';
import { field } from '../protocol/fields.ts';
import { listOf } from '../protocol/methods.ts';
import { envelope, splice } from '../protocol/splice.ts';
import type { CatalogMember } from './catalog-member.ts';

export interface ExposedItem {
  readonly server: string;
  readonly exposed: string;
  readonly item: Capability;
}

/** The items as clients of the era see them: their servers' bytes, with the exposed name in place of the own one. */
export function writeItems(
  kind: ListKind,
  items: readonly ExposedItem[],
  _members: readonly CatalogMember[],
  _era: Era,
): readonly Buffer[] {
  const { itemKey } = listOf(kind);
  return items.map(({ exposed, item }) => (exposed === item.key ? item.bytes : rename(item.bytes, itemKey, exposed)));
}

function rename(bytes: Buffer, key: string, exposed: string): Buffer {
  const { start, end } = envelope(bytes);
  const value = field(bytes, start, end, key);
  if (value === null) return bytes;
  return splice(bytes, [{ ...value, insert: JSON.stringify(exposed) }]);
}

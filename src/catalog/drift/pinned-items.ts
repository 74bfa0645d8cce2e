import type { PinnedList } from '../../model/drift-report.ts';
import { PINNED_LISTS } from '../../model/drift-report.ts';
import type { Capability, Hello, ServerCatalog } from '../../model/server-catalog.ts';

const INSTRUCTIONS = new WeakMap<Hello, readonly Capability[]>();

/** What a catalogue has of a list that is pinned; instructions as one item without a name, a JSON text. */
export function pinnedItems(catalog: Pick<ServerCatalog, 'hello' | 'lists'>, list: PinnedList): readonly Capability[] {
  return list === 'instructions' ? instructionsOf(catalog.hello) : catalog.lists[list].items;
}

/** All of them, with their lists. */
export function* allPinned(
  catalog: Pick<ServerCatalog, 'hello' | 'lists'>,
): Generator<{ readonly list: PinnedList; readonly item: Capability }, void, undefined> {
  for (const list of PINNED_LISTS) for (const item of pinnedItems(catalog, list)) yield { list, item };
}

function instructionsOf(hello: Hello): readonly Capability[] {
  let items = INSTRUCTIONS.get(hello);
  if (items === undefined) {
    const { instructions } = hello;
    items = instructions === null ? [] : [{ key: '', bytes: Buffer.from(JSON.stringify(instructions)) }];
    INSTRUCTIONS.set(hello, items);
  }
  return items;
}

import { createHash } from 'node:crypto';
import type { PinnedKind } from '../../model/drift.ts';
import type { CachedList, Capability, Hello, ListKind, ServerCatalog } from '../../model/server-catalog.ts';
import { editObject } from '../../protocol/edit-object.ts';
import { digestOf } from './definition-digest.ts';
import { pinnedItems } from './pinned-items.ts';
import { type Guard, offeredFor, standingOf, whyWithheld } from './standing.ts';

/** Lists that are pinned item by item. */
const LISTS: readonly PinnedKind[] = ['tools', 'prompts', 'resourceTemplates'];

/**
 * What is offered of a server's catalogue under its guard: the same object where that is all of it. Pages stay as the
 * server wrote them; whoever shows one cuts it himself (`guardedPage`), by the guard that its first page was shown under.
 */
export function guardedCatalog(raw: ServerCatalog, guard: Guard): ServerCatalog {
  const { policy, pins } = guard;
  const closed = (policy === 'hold' || policy === 'block') && pins.trustedAt !== null;
  const withheld: Record<PinnedKind, Map<string, string>> = {
    tools: new Map(),
    prompts: new Map(),
    resourceTemplates: new Map(),
  };
  const lists: Record<ListKind, CachedList> = { ...raw.lists };
  const blocked = blockedNames(guard);
  for (const { list, key } of blocked) withheld[list].set(key, whyWithheld('blocked'));
  const differs = createHash('sha256');
  let same = true;
  for (const list of LISTS) {
    const before = raw.lists[list];
    const items: Capability[] = [];
    for (const item of before.items) {
      const bytes = offeredFor(list, item, guard);
      if (bytes === item.bytes) {
        items.push(item);
        continue;
      }
      same = false;
      differs.update(`\0${list}\0${item.key}\0`).update(bytes ?? '');
      if (bytes !== null) items.push({ key: item.key, bytes });
      else withheld[list].set(item.key, whyWithheld(standingOf(pins, { list, key: item.key }, digestOf(item))));
    }
    lists[list] = { ...before, items };
  }
  const hello = guardedHello(raw, guard);
  if (hello !== raw.hello) {
    same = false;
    differs.update('\0instructions\0').update(hello.instructions ?? '');
  }
  if (same && !closed && blocked.length === 0) return raw;
  const digest = same ? raw.digest : differs.update(raw.digest).digest('hex').slice(0, 32);
  const only = closed
    ? {
        tools: namesOf(lists.tools),
        prompts: namesOf(lists.prompts),
        resourceTemplates: namesOf(lists.resourceTemplates),
      }
    : null;
  return { ...raw, digest, hello, lists: same ? raw.lists : lists, withheld: { ...withheld, only } };
}

/** Calls of these are refused whether or not the server lists them at present. */
function blockedNames({ policy, pins }: Guard): readonly { readonly list: PinnedKind; readonly key: string }[] {
  if (policy === 'off') return [];
  const found: { list: PinnedKind; key: string }[] = [];
  for (const { list, key, blocked } of pins.pins.values()) {
    if (blocked !== null && list !== 'instructions') found.push({ list, key });
  }
  return found;
}

function namesOf({ items }: CachedList): ReadonlySet<string> {
  return new Set(items.map(({ key }) => key));
}

function guardedHello(raw: ServerCatalog, guard: Guard): Hello {
  const [item] = pinnedItems(raw, 'instructions');
  const bytes = item === undefined ? null : offeredFor('instructions', item, guard);
  if (item === undefined || bytes === item.bytes) return raw.hello;
  const { result } = raw.hello;
  return {
    ...raw.hello,
    result: editObject(result, { start: 0, end: result.length }, [['instructions', bytes]]),
    instructions: bytes === null ? null : (JSON.parse(bytes.toString()) as string),
  };
}

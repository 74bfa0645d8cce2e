import type { PinnedKind } from '../../model/drift.ts';
import type { Capability, ListKind } from '../../model/server-catalog.ts';
import { elements, field, stringValue } from '../../protocol/fields.ts';
import { listOf } from '../../protocol/methods.ts';
import { cuts, type Edit } from '../../protocol/splice.ts';
import { type Guard, offeredFor } from './standing.ts';

/** The definitions of a page of a list, with where they stand in it. */
export interface PageItem extends Capability {
  readonly start: number;
  readonly end: number;
}

/** Items of the `result` value in `bytes` from `start` to `end`. */
export function pageItems(kind: ListKind, bytes: Buffer, start: number, end: number): readonly PageItem[] {
  const { resultKey, itemKey } = listOf(kind);
  const array = field(bytes, start, end, resultKey);
  if (array === null || bytes[array.start] !== 0x5b) return [];
  return Array.from(elements(bytes, array.start, array.end), (range) => ({
    ...range,
    key: stringValue(bytes, field(bytes, range.start, range.end, itemKey)) ?? '',
    bytes: bytes.subarray(range.start, range.end),
  }));
}

/** The edits that leave of these items what is offered under the guard; every other byte of the page stays. */
export function guardedPage(list: PinnedKind, items: readonly PageItem[], guard: Guard): readonly Edit[] {
  const offered = items.map((item) => offeredFor(list, item, guard));
  const edits = cuts(
    items,
    offered.map((bytes) => bytes === null),
  );
  items.forEach((item, i) => {
    const bytes = offered[i]!;
    if (bytes !== null && bytes !== item.bytes) edits.push({ start: item.start, end: item.end, insert: bytes });
  });
  return edits;
}

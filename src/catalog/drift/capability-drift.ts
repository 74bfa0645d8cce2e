import { type Capability, LIST_KINDS, type ListKind } from '../../model/server-catalog.ts';
import { decodeString, entries } from '../../protocol/fields.ts';
import { skipSpace } from '../../protocol/skip.ts';
import { sameJson } from './same-value.ts';

export interface FieldChange {
  /** JSON Pointer into the definition (RFC 6901), such as `/inputSchema/properties/path/type`. */
  readonly pointer: string;
  /** JSON texts as the server wrote them; null where the field is absent. */
  readonly before: string | null;
  readonly after: string | null;
}

/** The change of one tool, prompt, resource or resource template. */
export interface CapabilityChange {
  readonly list: ListKind;
  readonly kind: 'added' | 'removed' | 'changed';
  readonly key: string;
  /** For `changed`: every field that differs, at the deepest object that both versions have. Empty otherwise. */
  readonly fields: readonly FieldChange[];
}

export interface CapabilityDrift {
  /** Sorted by list, then key. */
  readonly changes: readonly CapabilityChange[];
  /** Lists with the same keys in another order. */
  readonly reordered: readonly ListKind[];
  /** Keys that occur more than once in a list; the last occurrence was compared. */
  readonly twice: readonly { readonly list: ListKind; readonly key: string }[];
}

export type CapabilityLists = Readonly<Partial<Record<ListKind, readonly Capability[]>>>;

/** More deeply nested objects are compared as one value: every level is parsed again for each level above it. */
const MAX_DEPTH = 24;
/** Characters read for one pair of definitions over all levels; beyond that, what is left counts as changed. */
const MAX_READ = 512 * 1024;
/** Larger definitions get a budget of this many passes. */
const MAX_READINGS = 4;

/** All differences between two snapshots of a server's lists, field by field, unknown fields included (S4.19). */
export function capabilityDrift(before: CapabilityLists, after: CapabilityLists): CapabilityDrift {
  const drift: Mutable = { changes: [], reordered: [], twice: [] };
  for (const list of LIST_KINDS) compareLists(list, before[list] ?? [], after[list] ?? [], drift);
  return drift;
}

interface Mutable {
  readonly changes: CapabilityChange[];
  readonly reordered: ListKind[];
  readonly twice: { list: ListKind; key: string }[];
}

function compareLists(list: ListKind, had: readonly Capability[], has: readonly Capability[], drift: Mutable): void {
  const [old, now] = [byKey(had), byKey(has)];
  for (const key of new Set([...duplicatesIn(had), ...duplicatesIn(has)])) drift.twice.push({ list, key });
  const changes: CapabilityChange[] = [];
  for (const key of now.keys()) if (!old.has(key)) changes.push({ list, kind: 'added', key, fields: [] });
  for (const [key, text] of old) {
    const current = now.get(key);
    if (current === undefined) changes.push({ list, kind: 'removed', key, fields: [] });
    else if (!sameJson(text, current))
      changes.push({ list, kind: 'changed', key, fields: fieldChanges(text, current) });
  }
  drift.changes.push(...changes.sort((a, b) => (a.key < b.key ? -1 : 1)));
  const sameKeys = old.size === now.size && [...old.keys()].every((key) => now.has(key));
  const order = [...now.keys()];
  if (sameKeys && [...old.keys()].some((key, at) => key !== order[at])) drift.reordered.push(list);
}

/** Every field in which two definitions differ, at the deepest object that both have. */
export function fieldChanges(before: string, after: string): readonly FieldChange[] {
  const found: FieldChange[] = [];
  const size = before.length + after.length;
  compare('', before, after, 0, { left: Math.max(MAX_READ, MAX_READINGS * size) }, found);
  return found;
}

function compare(
  pointer: string,
  before: string,
  after: string,
  depth: number,
  budget: { left: number },
  found: FieldChange[],
): void {
  if (before === after) return;
  budget.left -= before.length + after.length;
  if (budget.left < 0) return void found.push({ pointer, before, after });
  if (sameJson(before, after)) return;
  const [had, has] = [membersOf(before, depth), membersOf(after, depth)];
  if (had === null || has === null) {
    found.push({ pointer, before, after });
    return;
  }
  for (const key of new Set([...had.keys(), ...has.keys()])) {
    const [old, now] = [had.get(key) ?? null, has.get(key) ?? null];
    const below = `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    if (old !== null && now !== null) compare(below, old, now, depth + 1, budget, found);
    else found.push({ pointer: below, before: old, after: now });
  }
}

/** The members of an object as JSON texts, by name; null for other values and below `MAX_DEPTH`. */
function membersOf(json: string, depth: number): ReadonlyMap<string, string> | null {
  if (depth >= MAX_DEPTH || !json.trimStart().startsWith('{')) return null;
  const bytes = Buffer.from(json);
  const members = new Map<string, string>();
  for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(bytes, skipSpace(bytes, 0), bytes.length)) {
    const key = decodeString(bytes, keyStart, keyEnd);
    // A duplicate member is ambiguous: the caller reports the object as one change.
    if (key === null || members.has(key)) return null;
    members.set(key, bytes.toString('utf8', valueStart, valueEnd));
  }
  return members;
}

function byKey(items: readonly Capability[]): ReadonlyMap<string, string> {
  return new Map(items.map(({ key, bytes }) => [key, bytes.toString()]));
}

function duplicatesIn(items: readonly Capability[]): readonly string[] {
  const seen = new Set<string>();
  return items.filter(({ key }) => seen.size === seen.add(key).size).map(({ key }) => key);
}

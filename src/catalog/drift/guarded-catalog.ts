import { createHash } from 'node:crypto';
import {
  type DefinitionName,
  type DriftPolicy,
  PINNED_KINDS,
  type PinnedKind,
  type PinnedList,
  pinKey,
  type ServerPins,
  type Severity,
} from '../../model/drift.ts';
import type { CachedList, Capability, HandshakeResult, ListKind, ServerCatalog } from '../../model/server-catalog.ts';
import { elements, field, stringValue } from '../../protocol/fields.ts';
import { listOf } from '../../protocol/methods.ts';
import { cuts, type Edit, editObject } from '../../protocol/splice.ts';
import { digestOf, pinnedItems } from './definition-digest.ts';
import { judgeChange } from './severity.ts';

/** The policy and the pins of one server at one moment. */
export interface Guard {
  readonly policy: DriftPolicy;
  readonly pins: ServerPins;
}

/** The status of a definition, compared with the pin of its name. */
type ApprovalStatus = 'approved' | 'new' | 'changed' | 'blocked';

export function approvalStatusOf(
  { pins, trustedAt }: ServerPins,
  name: DefinitionName,
  digest: string,
): ApprovalStatus {
  const pin = pins.get(pinKey(name));
  if (pin?.blocked) return 'blocked';
  // Before first use: the first listing is trusted.
  if (trustedAt === null) return 'approved';
  if (pin === undefined || pin.approved.length === 0) return 'new';
  return pin.approved.some((one) => one.digest === digest) ? 'approved' : 'changed';
}

/**
 * The bytes offered for an item: its own, an approved definition, or null. `hold` offers an approved one unless calls by it can
 * fail.
 */
export function offeredFor(list: PinnedList, item: Capability, { policy, pins }: Guard): Buffer | null {
  if (policy === 'off') return item.bytes;
  const status = approvalStatusOf(pins, { list, key: item.key }, digestOf(item));
  if (status === 'blocked') return null;
  if (status === 'approved' || policy === 'warn') return item.bytes;
  if (status === 'new' || policy === 'block') return null;
  const { approved } = pins.pins.get(pinKey({ list, key: item.key }))!;
  for (const { definition, digest } of approved.toReversed()) {
    if (definition !== null && severityOf(list, definition, digest, item) !== 'breaking') return definition;
  }
  return null;
}

/** Why a definition is withheld, for the caller. */
export function whyWithheld(status: ApprovalStatus): string {
  if (status === 'blocked') return 'is blocked by the operator';
  return status === 'changed' ? 'has changed and waits for approval' : 'is new and waits for approval';
}

const SEVERITIES = new WeakMap<Buffer, Map<string, Severity>>();

function severityOf(list: PinnedList, old: Buffer, oldDigest: string, { bytes }: Capability): Severity {
  let known = SEVERITIES.get(bytes);
  if (known === undefined) SEVERITIES.set(bytes, (known = new Map()));
  let severity = known.get(oldDigest);
  if (severity === undefined) known.set(oldDigest, (severity = judgeChange(list, old, bytes).severity));
  return severity;
}

/** The catalog without withheld definitions; the same object if nothing changes. Pages stay; `guardedPage` cuts them. */
export function guardedCatalog(raw: ServerCatalog, guard: Guard): ServerCatalog {
  const { policy, pins } = guard;
  const closed = (policy === 'hold' || policy === 'block') && pins.trustedAt !== null;
  const withheld = ofEachKind(() => new Map<string, string>());
  const lists: Record<ListKind, CachedList> = { ...raw.lists };
  const blocked = blockedNames(guard);
  for (const { list, key } of blocked) withheld[list].set(key, whyWithheld('blocked'));
  const differs = createHash('sha256');
  let same = true;
  for (const list of PINNED_KINDS) {
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
      else withheld[list].set(item.key, whyWithheld(approvalStatusOf(pins, { list, key: item.key }, digestOf(item))));
    }
    lists[list] = { ...before, items };
  }
  const handshake = guardedHandshake(raw, guard);
  if (handshake !== raw.handshake) {
    same = false;
    differs.update('\0instructions\0').update(handshake.instructions ?? '');
  }
  if (same && !closed && blocked.length === 0) return raw;
  const digest = same ? raw.digest : differs.update(raw.digest).digest('hex').slice(0, 32);
  const only = closed ? ofEachKind((list) => new Set(lists[list].items.map(({ key }) => key))) : null;
  return { ...raw, digest, handshake, lists: same ? raw.lists : lists, withheld: { ...withheld, only } };
}

/** The blocked names: calls are refused whether or not the server lists them. */
function blockedNames({ policy, pins }: Guard): readonly { readonly list: PinnedKind; readonly key: string }[] {
  if (policy === 'off') return [];
  return [...pins.pins.values()].flatMap(({ list, key, blocked }) =>
    blocked === null || list === 'instructions' ? [] : [{ list, key }],
  );
}

function ofEachKind<T>(of: (list: PinnedKind) => T): Readonly<Record<PinnedKind, T>> {
  return { tools: of('tools'), prompts: of('prompts'), resourceTemplates: of('resourceTemplates') };
}

function guardedHandshake(raw: ServerCatalog, guard: Guard): HandshakeResult {
  const [item] = pinnedItems(raw, 'instructions');
  const bytes = item === undefined ? null : offeredFor('instructions', item, guard);
  if (item === undefined || bytes === item.bytes) return raw.handshake;
  const { result } = raw.handshake;
  return {
    ...raw.handshake,
    result: editObject(result, { start: 0, end: result.length }, [['instructions', bytes]]),
    instructions: bytes === null ? null : (JSON.parse(bytes.toString()) as string),
  };
}

/** A definition in a page of a list, with its byte range. */
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

/** Edits that cut withheld items from a page and replace others by their approved definition. */
export function guardedPage(list: PinnedKind, items: readonly PageItem[], guard: Guard): readonly Edit[] {
  const offered = items.map((item) => offeredFor(list, item, guard));
  const withheld = offered.map((bytes) => bytes === null);
  const replaced = items.flatMap(({ start, end, bytes }, i) => {
    const insert = offered[i]!;
    return insert === null || insert === bytes ? [] : [{ start, end, insert }];
  });
  return [...cuts(items, withheld), ...replaced];
}

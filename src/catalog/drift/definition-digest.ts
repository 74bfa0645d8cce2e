import { createHash } from 'node:crypto';
import { PINNED_LISTS, type PinnedList } from '../../model/drift.ts';
import type { Capability, HandshakeResult, ServerCatalog } from '../../model/server-catalog.ts';
import { canonicalExact } from '../../protocol/canonical.ts';
import { editObject } from '../../protocol/splice.ts';

/** Larger definitions are pinned byte for byte: tools are not like that, and canonical forms cost time. */
const MAX_CANONICAL_BYTES = 256 * 1024;

/** Not pinned: `_meta` may differ from list to list, `execution` from era to era. Models read neither. */
const UNPINNED = ['_meta', 'execution'] as const;

/** By the buffer that holds the definition, which whatever speaks of it shares. */
const DIGESTS = new WeakMap<Buffer, string>();

/** Of a capability in a catalogue; computed once. */
export function digestOf({ bytes }: Pick<Capability, 'bytes'>): string {
  let digest = DIGESTS.get(bytes);
  if (digest === undefined) {
    digest = definitionDigest(bytes);
    DIGESTS.set(bytes, digest);
  }
  return digest;
}

/** The item is a copy of the other, byte for byte: what is known of that one holds for it. */
export function sharesDigest(item: Capability, other: Capability): void {
  DIGESTS.set(item.bytes, digestOf(other));
}

/** SHA-256 of the canonical form (RFC 8785); of the bytes where parsers could read two definitions. */
export function definitionDigest(bytes: Buffer): string {
  const hash = createHash('sha256');
  if (bytes.length > MAX_CANONICAL_BYTES) return hash.update('bytes\n').update(bytes).digest('hex');
  const text = canonicalExact(pinned(bytes));
  if (text === null) return hash.update('bytes\n').update(bytes).digest('hex');
  return hash.update(text).digest('hex');
}

/** The definition without what is not pinned of it; the same buffer when there is nothing of the kind. */
export function pinned(bytes: Buffer): Buffer {
  if (bytes[0] !== 0x7b || !UNPINNED.some((key) => bytes.includes(`"${key}"`))) return bytes;
  return editObject(
    bytes,
    { start: 0, end: bytes.length },
    UNPINNED.map((key) => [key, null] as const),
  );
}

const INSTRUCTIONS = new WeakMap<HandshakeResult, readonly Capability[]>();

/** What a catalogue has of a list that is pinned; instructions as one item without a name, a JSON text. */
export function pinnedItems(
  catalog: Pick<ServerCatalog, 'handshake' | 'lists'>,
  list: PinnedList,
): readonly Capability[] {
  return list === 'instructions' ? instructionsOf(catalog.handshake) : catalog.lists[list].items;
}

export function* allPinned(
  catalog: Pick<ServerCatalog, 'handshake' | 'lists'>,
): Generator<{ readonly list: PinnedList; readonly item: Capability }, void, undefined> {
  for (const list of PINNED_LISTS) for (const item of pinnedItems(catalog, list)) yield { list, item };
}

function instructionsOf(handshake: HandshakeResult): readonly Capability[] {
  let items = INSTRUCTIONS.get(handshake);
  if (items === undefined) {
    const { instructions } = handshake;
    items = instructions === null ? [] : [{ key: '', bytes: Buffer.from(JSON.stringify(instructions)) }];
    INSTRUCTIONS.set(handshake, items);
  }
  return items;
}

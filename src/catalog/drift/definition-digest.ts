import { createHash } from 'node:crypto';
import { PINNED_LISTS, type PinnedList } from '../../model/drift.ts';
import type { Capability, HandshakeResult, ServerCatalog } from '../../model/server-catalog.ts';
import { canonicalExact } from '../../protocol/canonical.ts';
import { editObject } from '../../protocol/splice.ts';

/** Larger definitions are pinned byte for byte: tools are not that large, and canonical forms cost time. */
const MAX_CANONICAL_BYTES = 256 * 1024;

/** Members that are not pinned: `_meta` may differ between listings, `execution` between eras. Models read neither. */
const UNPINNED = ['_meta', 'execution'] as const;

/** Digests by the buffer of the definition, which all views of a catalog share. */
const DIGESTS = new WeakMap<Buffer, string>();

/** The digest of a capability, computed once per buffer. */
export function digestOf({ bytes }: Pick<Capability, 'bytes'>): string {
  let digest = DIGESTS.get(bytes);
  if (digest === undefined) {
    digest = definitionDigest(bytes);
    DIGESTS.set(bytes, digest);
  }
  return digest;
}

/** Records that `item` has the same bytes as `other`, so that its digest is not computed again. */
export function sharesDigest(item: Capability, other: Capability): void {
  DIGESTS.set(item.bytes, digestOf(other));
}

/** SHA-256 of the canonical form (RFC 8785); of the bytes if the definition is large or has duplicate members. */
export function definitionDigest(bytes: Buffer): string {
  const hash = createHash('sha256');
  if (bytes.length > MAX_CANONICAL_BYTES) return hash.update('bytes\n').update(bytes).digest('hex');
  const text = canonicalExact(pinned(bytes));
  if (text === null) return hash.update('bytes\n').update(bytes).digest('hex');
  return hash.update(text).digest('hex');
}

/** The definition without its unpinned members; the same buffer if no key of theirs occurs in it. */
export function pinned(bytes: Buffer): Buffer {
  if (bytes[0] !== 0x7b || !UNPINNED.some((key) => bytes.includes(`"${key}"`))) return bytes;
  return editObject(
    bytes,
    { start: 0, end: bytes.length },
    UNPINNED.map((key) => [key, null] as const),
  );
}

const INSTRUCTIONS = new WeakMap<HandshakeResult, readonly Capability[]>();

/** The pinned items of a list; instructions are one item with an empty key and a JSON text. */
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

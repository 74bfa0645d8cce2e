import { createHmac, timingSafeEqual } from 'node:crypto';
import type { ListKind } from '../model/server-catalog.ts';
import { LIST_KINDS } from '../model/server-catalog.ts';

/** What one of our cursors says: a page of a list of one catalogue version. */
interface CursorContent {
  readonly version: string;
  readonly kind: ListKind;
  readonly page: number;
}

const MAC_BYTES = 16;
const MAX_LENGTH = 256;

export type CursorWriter = Pick<CursorCodec, 'write'>;

/**
 * List cursors, authenticated by the first key and read with any, the same for the same page. They hold no secret; the
 * version in them is checked against the caller.
 */
export class CursorCodec {
  readonly #keys: readonly Buffer[];

  constructor(keys: readonly Buffer[]) {
    this.#keys = keys;
  }

  write({ version, kind, page }: CursorContent): string {
    const content = Buffer.from(`${version}.${LIST_KINDS.indexOf(kind)}.${page}`);
    return Buffer.concat([mac(this.#keys[0]!, content), content]).toString('base64url');
  }

  /** null for whatever this installation did not write. */
  read(cursor: string): CursorContent | null {
    if (cursor.length > MAX_LENGTH) return null;
    const bytes = Buffer.from(cursor, 'base64url');
    if (bytes.length <= MAC_BYTES || bytes.toString('base64url') !== cursor) return null;
    const content = bytes.subarray(MAC_BYTES);
    const written = bytes.subarray(0, MAC_BYTES);
    if (!this.#keys.some((key) => timingSafeEqual(written, mac(key, content)))) return null;
    const [version, kind, page] = content.toString().split('.');
    return { version: version!, kind: LIST_KINDS[Number(kind)]!, page: Number(page) };
  }
}

function mac(key: Buffer, content: Buffer): Buffer {
  return createHmac('sha256', key).update('cursor\0').update(content).digest().subarray(0, MAC_BYTES);
}

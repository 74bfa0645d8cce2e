import { createHmac, timingSafeEqual } from 'node:crypto';
import type { ListKind } from '../model/server-catalog.ts';
import { LIST_KINDS } from '../model/server-catalog.ts';

/** The content of a cursor: one page of one list of one catalog version. */
interface CursorContent {
  readonly version: string;
  readonly kind: ListKind;
  readonly page: number;
}

const MAC_BYTES = 16;
const MAX_LENGTH = 256;

export type CursorWriter = Pick<CursorCodec, 'write'>;

/**
 * List cursors with an HMAC: the first key writes, any key reads, and the same page has the same cursor. They contain no
 * secret; the reader checks that the caller may use the version in them.
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

  /** Returns null for a cursor that was not written with one of the keys. */
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

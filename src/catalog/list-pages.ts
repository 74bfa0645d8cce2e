import type { Era, Message } from '../model/message.ts';
import { result } from '../protocol/compose.ts';

/** Most items and bytes of one page; an item larger than the limit has a page of its own. */
const PAGE_ITEMS = 250;
const PAGE_BYTES = 1024 * 1024;

interface PageFrame {
  readonly era: Era;
  readonly resultKey: string;
  readonly cacheScope: 'public' | 'private';
  /** `Implementation` object of the gateway, for `_meta` of stateless results. */
  readonly serverInfo: string;
  /** The cursor of a page by its index. */
  readonly cursor: (page: number) => string;
}

/** One list in pages, written once with an id to be replaced; with a time to live, once a second (C9). */
export class ListPages {
  readonly #frame: PageFrame;
  readonly #pages: readonly (readonly Buffer[])[];
  readonly #written: { readonly ttlMs: number; readonly message: Message }[] = [];

  constructor(items: readonly Buffer[], frame: PageFrame) {
    this.#frame = frame;
    this.#pages = paginate(items);
  }

  /** null where there is no such page. */
  page(index: number, ttlMs: number): Message | null {
    const items = this.#pages[index];
    if (items === undefined) return null;
    const known = this.#written[index];
    if (known?.ttlMs === ttlMs) return known.message;
    const message = result('0', this.#write(items, index, ttlMs), this.#frame.era);
    this.#written[index] = { ttlMs, message };
    return message;
  }

  #write(items: readonly Buffer[], index: number, ttlMs: number): Buffer {
    const { era, resultKey, cacheScope, serverInfo, cursor } = this.#frame;
    const stateless = era === 'stateless';
    const parts: Buffer[] = [Buffer.from(`{${stateless ? '"resultType":"complete",' : ''}"${resultKey}":[`)];
    items.forEach((item, i) => {
      if (i > 0) parts.push(COMMA);
      parts.push(item);
    });
    let tail = ']';
    if (index + 1 < this.#pages.length) tail += `,"nextCursor":${JSON.stringify(cursor(index + 1))}`;
    if (stateless) {
      tail += `,"ttlMs":${ttlMs},"cacheScope":"${cacheScope}"`;
      tail += `,"_meta":{"io.modelcontextprotocol/serverInfo":${serverInfo}}`;
    }
    parts.push(Buffer.from(`${tail}}`));
    return Buffer.concat(parts);
  }
}

const COMMA = Buffer.from(',');

function paginate(items: readonly Buffer[]): Buffer[][] {
  const pages: Buffer[][] = [[]];
  let size = 0;
  for (const item of items) {
    let page = pages[pages.length - 1]!;
    if (page.length > 0 && (page.length === PAGE_ITEMS || size + item.length > PAGE_BYTES)) {
      page = [];
      pages.push(page);
      size = 0;
    }
    page.push(item);
    size += item.length;
  }
  return pages;
}

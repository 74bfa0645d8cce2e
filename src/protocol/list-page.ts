import { isUtf8 } from 'node:buffer';
import type { Era } from '../model/message.ts';
import type { InvalidItem } from '../model/server-catalog.ts';
import { duplicateKey, elements, entries, field, keyIs, stringValue } from './fields.ts';
import { validString, validValue } from './grammar.ts';
import { faultOfValue, ITEM_SHAPES } from './item-shape.ts';
import { KnownNames } from './known-names.ts';
import type { ListMethod } from './methods.ts';
import { skipSpace, skipString, skipValue } from './skip.ts';

/** Items of one page that are looked at and kept; checking each costs a hundred times what it costs to send it. */
export const MAX_PAGE_ITEMS = 20_000;

export interface SoundPage {
  /** The page itself where nothing was wrong with it. */
  readonly page: Buffer;
  /** It had more items than are looked at: the rest is left out. */
  readonly cut: boolean;
  readonly invalid: readonly Omit<InvalidItem, 'list' | 'page'>[];
}

/**
 * A page of a server's list without what would make the whole list useless to clients, into which it is merged or passed
 * on: items that are no JSON (RFC 8259, UTF-8), or that lack a member or have one of another type than the specification
 * says of the server's era. A list that is no array is taken for an empty one. Where nothing is wrong the page stays as it is; else every byte of what is kept does.
 */
export function soundPage(list: ListMethod, page: Buffer, era: Era): SoundPage {
  const sound = isSound(page);
  const array = field(page, 0, page.length, list.resultKey);
  const invalid: Omit<InvalidItem, 'list' | 'page'>[] = [];
  const kept: Buffer[] = [];
  let cut = false;
  if (array !== null && page[array.start] !== 0x5b) {
    invalid.push({ index: 0, item: null, reason: `"${list.resultKey}" is no array` });
  } else if (array !== null) {
    let index = 0;
    for (const { start, end } of elements(page, array.start, array.end)) {
      cut = index === MAX_PAGE_ITEMS;
      if (cut) break;
      const bytes = page.subarray(start, end);
      const reason = faultOfItem(list, bytes, era);
      if (reason === '') kept.push(bytes);
      else invalid.push({ index, item: nameOf(list, bytes), reason });
      index++;
    }
  }
  const twice = confusedPage(page, list);
  const whole = sound && invalid.length === 0 && !twice && !cut;
  return { page: whole ? page : rebuilt(list, page, kept), cut, invalid };
}

/** Why clients could not use a list with this item in it, or could take it for another one; empty where they can. */
export function faultOfItem({ kind }: ListMethod, bytes: Buffer, era: Era): string {
  if (!isSound(bytes)) return 'it is no valid JSON';
  if (bytes[0] !== 0x7b) return 'it is no object';
  const twice = duplicateKey(bytes, 0, bytes.length);
  if (twice !== null) return `"${twice.slice(0, 200)}" appears twice`;
  const shape = ITEM_SHAPES[era][kind];
  for (const { keyStart, keyEnd } of entries(bytes, 0, bytes.length)) {
    const found = shape.known.find(bytes, keyStart, keyEnd);
    if (found >= -1) continue;
    return `${bytes.toString('utf8', keyStart, keyEnd)} is written in another case than "${shape.known.nameOf(found)}"`;
  }
  return faultOfValue(bytes, 0, bytes.length, shape, '');
}

/** Well-formed JSON to the last byte, with nothing behind it. */
function isSound(bytes: Buffer): boolean {
  if (!isUtf8(bytes)) return false;
  const end = validValue(bytes, skipSpace(bytes, 0), 0);
  return end >= 0 && skipSpace(bytes, end) === bytes.length;
}

/** A member that other readers take for the list itself would show what was left out of it. */
function confusedPage(page: Buffer, { resultKey }: ListMethod): boolean {
  const names = new KnownNames([resultKey, 'nextCursor']);
  const seen = new Set<number>();
  for (const { keyStart, keyEnd } of entries(page, 0, page.length)) {
    const found = names.find(page, keyStart, keyEnd);
    if (found < -1 || seen.has(found)) return true;
    if (found >= 0) seen.add(found);
  }
  return false;
}

function rebuilt({ resultKey }: ListMethod, page: Buffer, kept: readonly Buffer[]): Buffer {
  const names = new KnownNames([resultKey, 'nextCursor']);
  const list = Buffer.concat([Buffer.from('['), ...joined(kept), Buffer.from(']')]);
  const members: Buffer[] = [];
  let listed = false;
  for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(page, 0, page.length)) {
    const found = names.find(page, keyStart, keyEnd);
    const isList = keyIs(page, keyStart, keyEnd, resultKey);
    if (found < -1 || (isList && listed) || validString(page, keyStart) !== keyEnd) continue;
    listed ||= isList;
    const value = isList ? list : page.subarray(valueStart, valueEnd);
    const key = page.subarray(keyStart, keyEnd);
    if (isList || (isSound(value) && isUtf8(key))) members.push(Buffer.concat([key, Buffer.from(':'), value]));
  }
  return Buffer.concat([Buffer.from('{'), ...joined(members), Buffer.from('}')]);
}

function joined(parts: readonly Buffer[]): Buffer[] {
  return parts.flatMap((part, i) => (i === 0 ? [part] : [COMMA, part]));
}

function nameOf({ itemKey }: ListMethod, bytes: Buffer): string | null {
  return stringValue(bytes, field(bytes, 0, bytes.length, itemKey))?.slice(0, 200) ?? null;
}

/**
 * Why a merged list leaves out an item that is sound: JSON allows it, and parsers of several languages refuse the whole
 * document for it. Empty where there is nothing.
 */
export function hardToRead(bytes: Buffer): string {
  if (hasLoneSurrogate(bytes)) return 'it contains half a surrogate pair';
  return hasHugeNumber(bytes) ? 'it contains a number that is larger than any double' : '';
}

function hasLoneSurrogate(bytes: Buffer): boolean {
  if (!bytes.includes(ESCAPE)) return false;
  let awaited = -1;
  for (const { 0: written, 1: digits, index } of bytes.toString('latin1').matchAll(/\\(?:u([0-9a-fA-F]{4})|.)/g)) {
    if (awaited >= 0 && awaited !== index) return true;
    const unit = digits === undefined ? 0 : Number.parseInt(digits, 16);
    const isLow = unit >= 0xdc00 && unit < 0xe000;
    if (isLow !== awaited >= 0) return true;
    awaited = unit >= 0xd800 && unit < 0xdc00 ? index + written.length : -1;
  }
  return awaited >= 0;
}

function hasHugeNumber(bytes: Buffer): boolean {
  let at = 0;
  while (at < bytes.length) {
    const c = bytes[at]!;
    if (c === 0x22) at = skipString(bytes, at, bytes.length);
    else if (c >= 0x30 && c <= 0x39) {
      const end = skipValue(bytes, at, bytes.length);
      // Nothing shorter overflows.
      if (end - at >= 5 && !Number.isFinite(Number(bytes.toString('latin1', at, end)))) return true;
      at = end;
    } else at++;
  }
  return false;
}

const COMMA = Buffer.from(',');
const ESCAPE = Buffer.from('\\u');

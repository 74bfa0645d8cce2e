import { isUtf8 } from 'node:buffer';
import type { Era } from '../model/message.ts';
import type { InvalidItem, ListKind } from '../model/server-catalog.ts';
import { duplicateKey, elements, entries, field, keyIs, stringValue } from './fields.ts';
import { isValidJson, validString } from './grammar.ts';
import { KnownNames } from './known-names.ts';
import type { ListMethod } from './methods.ts';
import { skipString, skipValue } from './skip.ts';

type Type = 'string' | 'object' | 'array' | 'number' | 'boolean';

/** The specified form of a value, as far as clients check it. */
interface Shape {
  readonly types: readonly Type[];
  readonly members?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  /** Every element of an array; every member of an object that names none. */
  readonly each?: Shape;
  readonly among?: readonly string[];
  readonly pattern?: RegExp;
  readonly max?: number;
  readonly min?: number;
}

/** Built once per list; `known`: the names of all members of an item. */
export interface ItemShape extends Shape {
  readonly known: KnownNames;
}

const TEXT: Shape = { types: ['string'] };
const FLAG: Shape = { types: ['boolean'] };
const ANY_OBJECT: Shape = { types: ['object'] };
const OBJECT_TYPE: Shape = { types: ['string'], among: ['object'] };

function object(members: Readonly<Record<string, Shape>>, required: readonly string[] = []): Shape {
  return { types: ['object'], members, required };
}

function list(each: Shape): Shape {
  return { types: ['array'], each };
}

const ICON = object(
  { src: TEXT, mimeType: TEXT, sizes: list(TEXT), theme: { types: ['string'], among: ['light', 'dark'] } },
  ['src'],
);
const COMMON = { name: TEXT, title: TEXT, description: TEXT, icons: list(ICON), _meta: ANY_OBJECT };
/** The time format that official clients accept: RFC 3339, seconds optional. */
const TIME =
  /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;
const RESOURCE = {
  ...COMMON,
  mimeType: TEXT,
  annotations: object({
    audience: list({ types: ['string'], among: ['user', 'assistant'] }),
    priority: { types: ['number'], min: 0, max: 1 },
    lastModified: { types: ['string'], pattern: TIME },
  }),
};

/** Properties that are `true` or `false` are valid JSON Schema; the stateful revisions require objects. */
function schema(era: Era, type: Readonly<Record<string, Shape>>): Shape {
  const property: Shape = era === 'stateful' ? ANY_OBJECT : { types: ['object', 'boolean'] };
  const members = { ...type, $schema: TEXT, properties: { types: ['object'], each: property }, required: list(TEXT) };
  return object(members as Readonly<Record<string, Shape>>, Object.keys(type));
}

function shapes(era: Era): Readonly<Record<ListKind, ItemShape>> {
  const hints = { readOnlyHint: FLAG, destructiveHint: FLAG, idempotentHint: FLAG, openWorldHint: FLAG };
  const tool = {
    ...COMMON,
    inputSchema: schema(era, { type: OBJECT_TYPE }),
    outputSchema: schema(era, era === 'stateful' ? { type: OBJECT_TYPE } : {}),
    annotations: object({ title: TEXT, ...hints }),
    execution: object({ taskSupport: { types: ['string'], among: ['required', 'optional', 'forbidden'] } }),
  };
  const argument = object({ name: TEXT, title: TEXT, description: TEXT, required: FLAG }, ['name']);
  const item = (members: Readonly<Record<string, Shape>>, required: readonly string[]): ItemShape => ({
    ...object(members, required),
    known: new KnownNames(Object.keys(members)),
  });
  return {
    tools: item(tool, ['name', 'inputSchema']),
    prompts: item({ ...COMMON, arguments: list(argument) }, ['name']),
    resources: item({ ...RESOURCE, uri: TEXT, size: { types: ['number'] } }, ['uri', 'name']),
    resourceTemplates: item({ ...RESOURCE, uriTemplate: TEXT }, ['uriTemplate', 'name']),
  };
}

/** By the era of the server; the revisions of one era do not differ in what is checked here. */
const ITEM_SHAPES: Readonly<Record<Era, Readonly<Record<ListKind, ItemShape>>>> = {
  stateful: shapes('stateful'),
  stateless: shapes('stateless'),
};

/** What is wrong with the value by its shape; empty for nothing. The value is valid JSON. */
function faultOfValue(bytes: Buffer, start: number, end: number, shape: Shape, path: string): string {
  const type = typeOf(bytes[start]!);
  if (!shape.types.includes(type as Type)) return `"${path}" is no ${shape.types.join(' or ')}`;
  if (type === 'number') {
    const value = Number(bytes.toString('latin1', start, end));
    const [min, max] = [shape.min ?? -Number.MAX_VALUE, shape.max ?? Number.MAX_VALUE];
    return value >= min && value <= max ? '' : `"${path}" is not between ${min} and ${max}`;
  }
  if (type === 'string') {
    if (shape.among === undefined && shape.pattern === undefined) return '';
    const text = stringValue(bytes, { start, end }) ?? '';
    if (shape.among?.includes(text) === false) return `"${path}" is not "${shape.among.join('" or "')}"`;
    return shape.pattern?.test(text) === false ? `"${path}" is no time of RFC 3339` : '';
  }
  return type === 'array'
    ? faultOfElements(bytes, start, end, shape, path)
    : faultOfMembers(bytes, start, end, shape, path);
}

function faultOfElements(bytes: Buffer, start: number, end: number, { each }: Shape, path: string): string {
  if (each === undefined) return '';
  let index = 0;
  for (const element of elements(bytes, start, end)) {
    const fault = faultOfValue(bytes, element.start, element.end, each, `${path}[${index++}]`);
    if (fault !== '') return fault;
  }
  return '';
}

function faultOfMembers(bytes: Buffer, start: number, end: number, shape: Shape, path: string): string {
  const { members, required, each } = shape;
  if (bytes[start] !== 0x7b || (members === undefined && each === undefined)) return '';
  const found = new Set<string>();
  for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(bytes, start, end)) {
    const name = stringValue(bytes, { start: keyStart, end: keyEnd })!;
    found.add(name);
    const member = each ?? (Object.hasOwn(members!, name) ? members![name] : undefined);
    if (member === undefined) continue;
    const within = path === '' ? name : `${path}.${name.slice(0, 200)}`;
    const fault = faultOfValue(bytes, valueStart, valueEnd, member, within);
    if (fault !== '') return fault;
  }
  const missing = required?.find((name) => !found.has(name));
  return missing === undefined ? '' : `"${path === '' ? missing : `${path}.${missing}`}" is missing`;
}

function typeOf(first: number): Type | 'null' {
  if (first === 0x22) return 'string';
  if (first === 0x7b) return 'object';
  if (first === 0x5b) return 'array';
  if (first === 0x74 || first === 0x66) return 'boolean';
  return first === 0x6e ? 'null' : 'number';
}

/** Most items of one page that are checked and kept; checking an item costs a hundred times what sending it costs. */
export const MAX_PAGE_ITEMS = 20_000;

export interface SanitizedPage {
  /** The page itself if nothing was wrong with it. */
  readonly page: Buffer;
  /** The page had more items than are checked: the rest is left out. */
  readonly cut: boolean;
  readonly invalid: readonly Omit<InvalidItem, 'list' | 'page'>[];
}

/**
 * Removes the items with which clients could not use the whole list: invalid JSON (RFC 8259, UTF-8), or not of the
 * specified shape. A list that is not an array is empty. Returns a valid page as the same buffer.
 */
export function sanitizePage(list: ListMethod, page: Buffer, era: Era): SanitizedPage {
  const isValid = isValidJson(page);
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
  const twice = hasConfusableMembers(page, list);
  const whole = isValid && invalid.length === 0 && !twice && !cut;
  return { page: whole ? page : rebuilt(list, page, kept), cut, invalid };
}

/** Why clients could not use a list with this item, or could take the item for another one; empty if they can. */
export function faultOfItem({ kind }: ListMethod, bytes: Buffer, era: Era): string {
  if (!isValidJson(bytes)) return 'it is no valid JSON';
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

/** A member that other readers take for the list itself could show the removed items. */
function hasConfusableMembers(page: Buffer, { resultKey }: ListMethod): boolean {
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
    if (isList || (isValidJson(value) && isUtf8(key))) members.push(Buffer.concat([key, Buffer.from(':'), value]));
  }
  return Buffer.concat([Buffer.from('{'), ...joined(members), Buffer.from('}')]);
}

function joined(parts: readonly Buffer[]): Buffer[] {
  return parts.flatMap((part, i) => (i === 0 ? [part] : [COMMA, part]));
}

function nameOf({ itemKey }: ListMethod, bytes: Buffer): string | null {
  return stringValue(bytes, field(bytes, 0, bytes.length, itemKey))?.slice(0, 200) ?? null;
}

/** Why a merged list leaves out a valid item: parsers of several languages reject it. Empty for no reason. */
export function portabilityFault(bytes: Buffer): string {
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

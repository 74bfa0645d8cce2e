import type { Era } from '../model/message.ts';
import type { ListKind } from '../model/server-catalog.ts';
import { elements, entries, stringValue } from './fields.ts';
import { KnownNames } from './known-names.ts';

type Type = 'string' | 'object' | 'array' | 'number' | 'boolean';

/** What the specification says of a value, as far as clients check it. */
interface Shape {
  readonly types: readonly Type[];
  readonly members?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  /** Every element of an array; every member of an object that names none. */
  readonly each?: Shape;
  /** The texts that are allowed. */
  readonly among?: readonly string[];
  readonly pattern?: RegExp;
  readonly max?: number;
  readonly min?: number;
}

/** Built once for each list; `known`: the names of all members of an item. */
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
/** The time that official clients take: RFC 3339, seconds optional. */
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

/** Properties that are `true` or `false` are JSON Schema; the stateful revisions want objects. */
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

/** By the era of the server; the revisions of one era differ in nothing that is checked here. */
export const ITEM_SHAPES: Readonly<Record<Era, Readonly<Record<ListKind, ItemShape>>>> = {
  stateful: shapes('stateful'),
  stateless: shapes('stateless'),
};

/** What is wrong with the value by its shape; empty where nothing is. The value is sound JSON. */
export function faultOfValue(bytes: Buffer, start: number, end: number, shape: Shape, path: string): string {
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

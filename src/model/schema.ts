/** A JSON Schema (2020-12) with the TypeScript type of its values. Members with `~` exist only for the compiler. */
export type Schema<T = unknown> = Readonly<Record<string, unknown>> & {
  readonly '~type'?: T;
  readonly '~optional'?: true;
};

/** The type of the values that a schema describes. */
export type Infer<S> = S extends { readonly '~type'?: infer T } ? Exclude<T, undefined> : never;

interface Component {
  readonly name: string;
  readonly schema: Schema;
}

const COMPONENTS = new WeakMap<object, Component>();
const OPTIONAL = new WeakSet<object>();

type Properties = Readonly<Record<string, Schema>>;
type OptionalKeys<P> = { [K in keyof P]: P[K] extends { readonly '~optional': true } ? K : never }[keyof P];
type ObjectOf<P> = { readonly [K in Exclude<keyof P, OptionalKeys<P>>]: Infer<P[K]> } & {
  readonly [K in OptionalKeys<P>]?: Infer<P[K]>;
};
/** One flat object type, so that compilers show its members. */
type Flat<T> = { readonly [K in keyof T]: T[K] };

export const text: Schema<string> = { type: 'string' };
export const flag: Schema<boolean> = { type: 'boolean' };
export const integer: Schema<number> = { type: 'integer' };
export const count: Schema<number> = { type: 'integer', minimum: 0 };
export const milliseconds: Schema<number> = { type: 'number', minimum: 0 };
export const wallTime: Schema<number> = { type: 'number', description: 'Milliseconds since 1970.' };
export const isoTime: Schema<string> = { type: 'string', format: 'date-time' };
export const anyValue: Schema<unknown> = {};
export const anyObject: Schema<Readonly<Record<string, unknown>>> = { type: 'object' };

export function oneOf<const V extends string>(values: readonly V[]): Schema<V> {
  return { enum: values };
}

export function constant<const V>(value: V): Schema<V> {
  return { const: value };
}

export function nullable<T>(schema: Schema<T>): Schema<T | null> {
  const { type } = schema;
  if (typeof type === 'string' && componentOf(schema) === null) return { ...schema, type: [type, 'null'] };
  return { anyOf: [schema, { type: 'null' }] };
}

export function list<T>(items: Schema<T>): Schema<readonly T[]> {
  return { type: 'array', items };
}

export function record<T>(values: Schema<T>): Schema<Readonly<Record<string, T>>> {
  return { type: 'object', additionalProperties: values };
}

export function object<const P extends Properties>(
  properties: P,
): Schema<Flat<ObjectOf<P>>> & { readonly properties: P } {
  const required = Object.keys(properties).filter((key) => !OPTIONAL.has(properties[key]!));
  return { type: 'object', properties, required };
}

export function optional<S extends Schema>(schema: S): S & { readonly '~optional': true } {
  const copy = copied(schema, {});
  OPTIONAL.add(copy);
  return copy as S & { readonly '~optional': true };
}

export function union<const S extends readonly Schema[]>(...schemas: S): Schema<Infer<S[number]>> {
  return { oneOf: schemas };
}

/** A copy of the schema with a description for its use here. */
export function described<S extends Schema>(schema: S, description: string): S {
  return copied(schema, { description });
}

/** A schema that documents list among their components and refer to by this name. */
export function named<S extends Schema>(name: string, schema: S, description?: string): S {
  const whole = description === undefined ? schema : described(schema, description);
  COMPONENTS.set(whole, { name, schema: whole });
  return whole;
}

export function componentOf(schema: Schema): Component | null {
  return COMPONENTS.get(schema) ?? null;
}

function copied<S extends Schema>(schema: S, more: Readonly<Record<string, unknown>>): S {
  const copy = { ...schema, ...more };
  const component = COMPONENTS.get(schema);
  if (component !== undefined) COMPONENTS.set(copy, component);
  if (OPTIONAL.has(schema)) OPTIONAL.add(copy);
  return copy;
}

/** Whether an external value matches the schema. Members that the schema does not name are ignored. */
export function matches<T>(schema: Schema<T>, value: unknown): value is T {
  return faultIn(schema, value) === null;
}

/** The first fault in an external value, with its path; null if the value matches the schema. */
export function faultIn(schema: Schema, value: unknown, path = ''): string | null {
  const { variants = [], properties = {}, required = [], items, additionalProperties } = keywordsOf(schema);
  const near = variants.filter((one) => isOfKind(one, value));
  if (near.length > 0) {
    const faults = near.map((one) => faultIn(one, value, path));
    return faults.includes(null) ? null : faults.join(', or ');
  }
  if (!isOfKind(schema, value)) return `${path || 'it'} has to be ${kindOf(schema)}`;
  if (typeof value !== 'object' || value === null) return null;
  const at = (key: string): string => `${path === '' ? '' : `${path}.`}${key.slice(0, 64)}`;
  const missing = required.find((key) => !Object.hasOwn(value, key));
  if (missing !== undefined) return `${at(missing)} is missing`;
  for (const [key, one] of Object.entries(value)) {
    const listed = Array.isArray(value) ? items : additionalProperties;
    const part = Object.hasOwn(properties, key) ? properties[key] : listed;
    const fault = part === undefined ? null : faultIn(part, one, Array.isArray(value) ? `${path}[${key}]` : at(key));
    if (fault !== null) return fault;
  }
  return null;
}

interface Keywords {
  readonly enum?: readonly unknown[];
  readonly type?: string | readonly string[];
  readonly variants?: readonly Schema[];
  readonly properties?: Properties;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  /** Minimum of a number, or of the length of a list. */
  readonly least?: number;
  readonly most?: number;
}

function keywordsOf(schema: Schema): Keywords {
  const { const: only, anyOf, oneOf: variants = anyOf, minimum, maximum } = schema;
  const { minItems: least = minimum, maxItems: most = maximum, enum: choices } = schema;
  return { ...schema, enum: only === undefined ? choices : [only], variants, least, most } as Keywords;
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
};

/** Whether the value itself matches the schema, without its members or items. */
function isOfKind(schema: Schema, value: unknown): boolean {
  const { enum: choices, type = [], variants, least = -Infinity, most = Infinity } = keywordsOf(schema);
  if (variants !== undefined) return variants.some((one) => isOfKind(one, value));
  const types = [type].flat();
  if (choices?.includes(value) === false || (types.length > 0 && !types.some((one) => isOfType(one, value))))
    return false;
  const size = Array.isArray(value) ? value.length : typeof value === 'number' ? value : least;
  return size >= least && size <= most;
}

function kindOf(schema: Schema): string {
  const { enum: choices, type = [], variants, least, most } = keywordsOf(schema);
  if (choices !== undefined) return choices.length === 1 ? `${choices[0]}` : `one of ${choices.join(', ')}`;
  const kinds = variants?.map(kindOf) ?? [type].flat().map((one) => KINDS[one]);
  const bounds = [least === undefined ? [] : `at least ${least}`, most === undefined ? [] : `at most ${most}`].flat();
  return `${kinds.join(' or ')}${bounds.length === 0 ? '' : ` of ${bounds.join(' and ')}`}`;
}

function isOfType(type: string, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value);
  return type === (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);
}

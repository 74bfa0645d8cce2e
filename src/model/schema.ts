/** A JSON Schema (2020-12) with the TypeScript type of its values. Members with `~` are for the compiler only. */
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
/** One flat object type, which compilers show by its members. */
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

/** The same schema with a sentence that says what it means here. */
export function described<S extends Schema>(schema: S, description: string): S {
  return copied(schema, { description });
}

/** A schema that documents put among their components and refer to by this name. */
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

/** Whether a value from outside is what the schema describes. Members that it does not name are ignored. */
export function matches<T>(schema: Schema<T>, value: unknown): value is T {
  const { type, enum: values, anyOf, oneOf: variants, properties, required, items, additionalProperties } = schema;
  if ('const' in schema && value !== schema['const']) return false;
  if (values !== undefined && !(values as readonly unknown[]).includes(value)) return false;
  const alternatives = (anyOf ?? variants) as readonly Schema[] | undefined;
  if (alternatives !== undefined) return alternatives.some((one) => matches(one, value));
  const types = Array.isArray(type) ? (type as readonly string[]) : [type as string];
  if (type !== undefined && !types.some((one) => isOfType(one, value))) return false;
  if (typeof value === 'number') {
    return value >= Number(schema['minimum'] ?? -Infinity) && value <= Number(schema['maximum'] ?? Infinity);
  }
  if (Array.isArray(value)) {
    const { minItems = 0, maxItems = Infinity } = schema as { minItems?: number; maxItems?: number };
    if (value.length < minItems || value.length > maxItems) return false;
    return items === undefined || value.every((one) => matches(items as Schema, one));
  }
  if (typeof value !== 'object' || value === null) return true;
  if (((required as readonly string[] | undefined) ?? []).some((key) => !Object.hasOwn(value, key))) return false;
  return Object.entries(value).every(([key, one]) => {
    const known = Object.entries((properties as Properties | undefined) ?? {}).find(([name]) => name === key)?.[1];
    const schemaOf = known ?? (additionalProperties as Schema | undefined);
    return schemaOf === undefined || matches(schemaOf, one);
  });
}

function isOfType(type: string, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value);
  return type === (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);
}

import { isNumber, isObject, type Json, type JsonObject } from './exact-json.ts';

/** What a form needs of JSON Schema. Whatever else is in a schema is left to the server. */
export interface FormSchema {
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly default?: Json;
  readonly enum?: readonly Json[];
  readonly enumNames?: readonly string[];
  readonly const?: Json;
  readonly properties?: Readonly<Record<string, FormSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | FormSchema;
  readonly items?: FormSchema;
  readonly oneOf?: readonly FormSchema[];
  readonly anyOf?: readonly FormSchema[];
  readonly allOf?: readonly FormSchema[];
  readonly format?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly $ref?: string;
}

const DEEPEST = 12;
const MOST_NODES = 1_000;

/**
 * What one walk may still visit. A schema that refers to itself in several places grows exponentially with the depth; where
 * the budget ends, the rest of the schema is taken as if it said nothing.
 */
interface WalkBudget {
  left: number;
}

/** The schema with its references followed and `allOf` put together. `root`: where references lead. */
export function resolved(
  schema: FormSchema | boolean | undefined,
  root: FormSchema,
  budget: WalkBudget = { left: MOST_NODES },
  depth = 0,
): FormSchema {
  if (typeof schema !== 'object' || schema === null || depth > DEEPEST || budget.left-- <= 0) return {};
  let own: FormSchema = schema;
  if (own.$ref !== undefined) {
    const { $ref, ...rest } = own;
    own = { ...resolved(at(root, $ref), root, budget, depth + 1), ...rest };
  }
  for (const part of own.allOf ?? []) {
    const { properties, required, ...rest } = resolved(part, root, budget, depth + 1);
    own = {
      ...rest,
      ...own,
      properties: { ...properties, ...own.properties },
      required: [...(required ?? []), ...(own.required ?? [])],
    };
  }
  return own;
}

function at(root: FormSchema, reference: string): FormSchema | undefined {
  let pointer: string;
  try {
    pointer = decodeURIComponent(reference);
  } catch {
    return undefined;
  }
  if (!pointer.startsWith('#')) return undefined;
  let value: unknown = root;
  for (const part of pointer.split('/').slice(1)) {
    value = (value as Record<string, unknown> | undefined)?.[part.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  return value as FormSchema | undefined;
}

/** The kinds of values that it takes, without null where there are others. */
export function typeOf(schema: FormSchema): string {
  const types = schema.type === undefined ? [] : typeof schema.type === 'string' ? [schema.type] : schema.type;
  const [first] = types.filter((type) => type !== 'null');
  if (first !== undefined) return first;
  if (types.length > 0) return 'null';
  if (schema.properties !== undefined) return 'object';
  return schema.items === undefined ? 'any' : 'array';
}

export function variantsOf(schema: FormSchema): readonly FormSchema[] {
  return schema.oneOf ?? schema.anyOf ?? [];
}

/** The values to choose from, with what they are called; null where there is no such list. */
export function choicesOf(schema: FormSchema): readonly { readonly value: Json; readonly title: string }[] | null {
  const { enum: values, enumNames } = schema;
  if (values !== undefined) return values.map((value, i) => ({ value, title: enumNames?.[i] ?? textOf(value) }));
  const variants = variantsOf(schema);
  if (variants.length === 0 || !variants.every((one) => one.const !== undefined)) return null;
  return variants.map((one) => ({ value: one.const, title: one.title ?? textOf(one.const) }));
}

export function textOf(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** What a form begins with: defaults, and what is required as far as there is only one choice. */
export function initialOf(
  schema: FormSchema,
  root: FormSchema,
  required: boolean,
  budget: WalkBudget = { left: MOST_NODES },
  depth = 0,
): Json {
  const own = resolved(schema, root, budget);
  if (own.default !== undefined) return own.default;
  if (own.const !== undefined) return required ? own.const : undefined;
  if (!required || depth > DEEPEST || budget.left <= 0) return undefined;
  const [variant] = choicesOf(own) === null ? variantsOf(own) : [];
  if (variant !== undefined && own.properties === undefined) return initialOf(variant, root, true, budget, depth + 1);
  if (typeOf(own) === 'array') return [];
  if (typeOf(own) === 'boolean') return false;
  if (typeOf(own) !== 'object') return undefined;
  const members = Object.entries(own.properties ?? {}).map(([name, member]) => {
    return [name, initialOf(member, root, own.required?.includes(name) === true, budget, depth + 1)] as const;
  });
  return Object.fromEntries(members.filter(([, value]) => value !== undefined));
}

export interface Fault {
  /** Names and positions, with slashes. */
  readonly path: string;
  readonly message: string;
}

/**
 * What the server would refuse, as far as the form knows. `pattern` is left to the server: a regular expression of a
 * server could hold up the page for good.
 */
export function faultsOf(
  value: Json,
  schema: FormSchema,
  root: FormSchema,
  path = '',
  budget: WalkBudget = { left: MOST_NODES },
): readonly Fault[] {
  if (budget.left <= 0) return [];
  const own = resolved(schema, root, budget);
  const fault = (message: string): Fault[] => [{ path, message }];
  if (value === undefined) return [];
  if (value === null && (own.type === 'null' || (Array.isArray(own.type) && own.type.includes('null')))) return [];
  const choices = choicesOf(own);
  if (choices !== null && !choices.some((one) => textOf(one.value) === textOf(value)))
    return fault('Choose one of the values');
  if (own.const !== undefined && textOf(own.const) !== textOf(value))
    return fault(`This has to be ${textOf(own.const)}`);
  const variants = choices === null ? variantsOf(own) : [];
  if (variants.length > 0) {
    const tried = variants.map((one) => faultsOf(value, one, root, path, budget));
    if (!tried.some((faults) => faults.length === 0)) return tried.toSorted((a, b) => a.length - b.length)[0]!;
  }
  switch (typeOf(own)) {
    case 'object':
      return isObject(value) ? objectFaults(value, own, root, path, budget) : fault('This has to be an object');
    case 'array':
      return Array.isArray(value) ? arrayFaults(value, own, root, path, budget) : fault('This has to be a list');
    case 'string':
      return typeof value === 'string' ? faultIn(textFault(value, own), path) : fault('This has to be a text');
    case 'integer':
    case 'number':
      return isNumber(value)
        ? faultIn(numberFault(Number(textOf(value)), own), path)
        : fault('This has to be a number');
    case 'boolean':
      return typeof value === 'boolean' ? [] : fault('This has to be true or false');
    default:
      return [];
  }
}

function faultIn(message: string | null, path: string): readonly Fault[] {
  return message === null ? [] : [{ path, message }];
}

function objectFaults(
  value: JsonObject,
  schema: FormSchema,
  root: FormSchema,
  path: string,
  budget: WalkBudget,
): readonly Fault[] {
  const { properties = {}, required = [], additionalProperties } = schema;
  const missing = required.filter((name) => value[name] === undefined);
  const unknown =
    additionalProperties === false
      ? Object.keys(value).filter((name) => !Object.hasOwn(properties, name) && value[name] !== undefined)
      : [];
  return [
    ...missing.map((name) => ({ path: `${path}/${name}`, message: 'This is required' })),
    ...unknown.map((name) => ({ path: `${path}/${name}`, message: 'The tool has no such parameter' })),
    ...Object.entries(value).flatMap(([name, member]) => {
      const own = properties[name] ?? (typeof additionalProperties === 'object' ? additionalProperties : undefined);
      return own === undefined ? [] : faultsOf(member, own, root, `${path}/${name}`, budget);
    }),
  ];
}

function arrayFaults(
  value: readonly Json[],
  schema: FormSchema,
  root: FormSchema,
  path: string,
  budget: WalkBudget,
): readonly Fault[] {
  const { items, minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema;
  if (value.length < minItems) return [{ path, message: `At least ${minItems} items are needed` }];
  if (value.length > maxItems) return [{ path, message: `No more than ${maxItems} items` }];
  if (items === undefined) return [];
  return value.flatMap((item, i) =>
    item === undefined
      ? [{ path: `${path}/${i}`, message: 'This is empty' }]
      : faultsOf(item, items, root, `${path}/${i}`, budget),
  );
}

function textFault(value: string, { minLength = 0, maxLength = Number.POSITIVE_INFINITY }: FormSchema): string | null {
  const length = [...value].length;
  if (length < minLength) return `At least ${minLength} characters are needed`;
  return length > maxLength ? `No more than ${maxLength} characters` : null;
}

function numberFault(value: number, schema: FormSchema): string | null {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  if (typeOf(schema) === 'integer' && !Number.isInteger(value)) return 'This has to be a whole number';
  if (minimum !== undefined && value < minimum) return `This has to be ${minimum} or more`;
  if (maximum !== undefined && value > maximum) return `This has to be ${maximum} or less`;
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
    return `This has to be more than ${exclusiveMinimum}`;
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum)
    return `This has to be less than ${exclusiveMaximum}`;
  const parts = multipleOf === undefined ? 0 : value / multipleOf;
  return Math.abs(parts - Math.round(parts)) > 1e-9 ? `This has to be a multiple of ${multipleOf}` : null;
}

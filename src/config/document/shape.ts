import { didYouMean, type Problems, type Source, type TextSpan } from '../problem/problem.ts';
import { type JsonSchema, type JsonType, resolved, typesOf } from '../schema-json.ts';
import { child, type Node, type ObjectNode, type ScalarNode } from './node.ts';

interface ShapeContext {
  readonly source: Source;
  readonly problems: Problems;
  /** Unknown keys are errors (in our files) or warnings (in those of clients). */
  readonly strict: boolean;
  /** Keys of clients that have no meaning here. */
  readonly ignored: ReadonlySet<string>;
}

/** Keys reserved for features that are not implemented yet; they are refused. */
export const RESERVED_KEYS: Readonly<Record<string, string>> = {
  endpoints: 'virtual servers',
};

/**
 * Whether a node has the shape that the generated schema requires; reports each fault at its place. Accepts exactly what the zod
 * schema accepts (property-tested), except for unknown keys of clients.
 */
export function checkShape(node: Node, schema: JsonSchema, path: string, context: ShapeContext): boolean {
  const target = resolved(schema);
  if (target.anyOf !== undefined) {
    const branch = target.anyOf.find((candidate) => hasType(node, candidate));
    return branch === undefined
      ? wrongType(node, target.anyOf, path, context)
      : checkShape(node, branch, path, context);
  }
  if (!hasType(node, target)) return wrongType(node, [target], path, context);
  if (node.kind === 'object') return checkObject(node, target, path, context);
  if (node.kind === 'array') return checkArray(node, target, path, context);
  return checkScalar(node, target, path, context);
}

/** A value of a schema with all defaults, sections and lists filled in. */
export type WithDefaults<T> = T extends object
  ? T extends readonly unknown[]
    ? T
    : { readonly [K in keyof T]-?: WithDefaults<Exclude<T[K], undefined>> }
  : T;

/**
 * The plain value of a node, with the defaults of its schema. A value of a wrong type counts as absent: `checkShape` reports
 * it.
 */
export function withDefaults(node: Node | undefined, schema: JsonSchema): unknown {
  const target = resolved(schema);
  const { anyOf: branches = [target], properties, additionalProperties, items } = target;
  const branch = node && branches.find((candidate) => hasType(node, candidate));
  if (branch !== undefined && branch !== target) return withDefaults(node, branch);
  if (branch !== undefined && node?.kind === 'array') {
    return node.items.map((item) => withDefaults(item, items ?? {})).filter((value) => value !== undefined);
  }
  if (properties !== undefined) {
    const object = branch !== undefined && node?.kind === 'object' ? node : null;
    const values = Object.entries(properties).map(([key, inner]) => [
      key,
      withDefaults(object === null ? undefined : child(object, key), inner),
    ]);
    return Object.fromEntries(values.filter(([, value]) => value !== undefined));
  }
  if (branch !== undefined && node?.kind === 'object') {
    return Object.fromEntries(
      node.members.map(({ key, value }) => [key, withDefaults(value, additionalProperties || {})]),
    );
  }
  if (branch !== undefined && node?.kind !== 'null') return (node as ScalarNode).value;
  return target.default ?? (target.type === 'array' ? [] : undefined);
}

function checkObject(node: ObjectNode, schema: JsonSchema, path: string, context: ShapeContext): boolean {
  let good = true;
  for (const { key, keySpan, value } of node.members) {
    const inner = path === '' ? key : `${path}.${key}`;
    const property = Object.hasOwn(schema.properties ?? {}, key) ? schema.properties![key] : undefined;
    if (property !== undefined) good = checkShape(value, property, inner, context) && good;
    else if (schema.additionalProperties === false) good = unknownKey(key, keySpan, inner, schema, context) && good;
    else if (schema.additionalProperties) good = checkShape(value, schema.additionalProperties, inner, context) && good;
  }
  for (const key of schema.required ?? []) {
    if (node.members.some((candidate) => candidate.key === key)) continue;
    context.problems.error('TL1304', context.source, node.span, `${path} needs the key ${JSON.stringify(key)}`);
    good = false;
  }
  return good;
}

const HEADER = 'send it as a header: "headers": { "Authorization": "Bearer ${NAME}" }';
const COMMAND = 'did you mean "command"?';

/** Keys that people use by mistake, with a known key of the same map and the fix. */
const ELSEWHERE: readonly (readonly [RegExp, string, string])[] = [
  [/^(?:exec|executable|program|binary|run|path)$/i, 'command', COMMAND],
  [/^(?:arguments|parameters|params|options)$/i, 'args', 'did you mean "args"?'],
  [/^(?:endpoint|address|link|href)$/i, 'url', 'did you mean "url"?'],
  [/^(?:api[-_]?key|key|(?:bearer|access|auth)?[-_]?token|authorization|password)$/i, 'headers', HEADER],
  [
    /^(?:api[-_]?key|key|keys|token|password)$/i,
    'agents',
    'keys are those of agents: "agents": { "name": { "key": "…" } }',
  ],
  [/^(?:port|host|address)$/i, 'listen', 'it belongs into "listen": { … }'],
];

function unknownKey(
  key: string,
  span: TextSpan,
  path: string,
  schema: JsonSchema,
  { source, problems, strict, ignored }: ShapeContext,
): boolean {
  const later = Object.hasOwn(RESERVED_KEYS, key) ? RESERVED_KEYS[key] : undefined;
  if (later !== undefined) {
    problems.error('TL1305', source, span, `${path} has no effect yet: it comes with ${later}`);
    return false;
  }
  if (ignored.has(key) && !strict) return true;
  if (problems.isFull(strict && !problems.lenient ? 'errors' : 'warnings')) return !strict;
  const otherwise = strict ? 'remove it' : 'leave it, if your client needs it';
  const known = schema.properties ?? {};
  const [, , elsewhere = otherwise] = ELSEWHERE.find(([words, at]) => words.test(key) && at in known) ?? [];
  const fix = didYouMean(key, Object.keys(known), elsewhere);
  if (strict) problems.error('TL1301', source, span, `${path} is not a known key`, fix);
  else problems.warn('TL1301', source, span, `${path} is not a known key and is ignored`, fix);
  return !strict;
}

function checkArray(node: Node & { kind: 'array' }, schema: JsonSchema, path: string, context: ShapeContext): boolean {
  if (schema.minItems !== undefined && node.items.length < schema.minItems) {
    context.problems.error('TL1303', context.source, node.span, `${path} must not be empty`);
    return false;
  }
  if (schema.maxItems !== undefined && node.items.length > schema.maxItems) {
    const message = `${path} has ${node.items.length} items; it may have at most ${schema.maxItems}`;
    context.problems.error('TL1303', context.source, node.span, message);
    return false;
  }
  let good = true;
  node.items.forEach((item, index) => {
    if (schema.items) good = checkShape(item, schema.items, `${path}[${index}]`, context) && good;
  });
  return good;
}

function checkScalar(node: ScalarNode, schema: JsonSchema, path: string, { source, problems }: ShapeContext): boolean {
  const complaint = node.kind === 'string' ? stringComplaint(node.text, schema) : numberComplaint(node.value, schema);
  if (complaint === null) return true;
  const fix = schema.enum === undefined ? undefined : didYouMean(node.text, schema.enum, `use ${listed(schema.enum)}`);
  problems.error('TL1303', source, node.span, `${path} ${complaint}`, fix);
  return false;
}

function stringComplaint(text: string, schema: JsonSchema): string | null {
  if (schema.enum !== undefined && !schema.enum.includes(text)) return `must be ${listed(schema.enum)}`;
  if (schema.minLength !== undefined && text.length < schema.minLength) return 'must not be empty';
  if (schema.maxLength !== undefined && text.length > schema.maxLength) return `is longer than ${schema.maxLength}`;
  if (schema.pattern !== undefined && !new RegExp(schema.pattern, 'u').test(text))
    return 'has characters it cannot have';
  return null;
}

function numberComplaint(value: ScalarNode['value'], schema: JsonSchema): string | null {
  if (typeof value !== 'number') return null;
  const { minimum, exclusiveMinimum, maximum } = schema;
  const low = minimum !== undefined && value < minimum;
  if (low || (maximum !== undefined && value > maximum)) return `must be from ${minimum ?? 0} to ${maximum}`;
  return exclusiveMinimum !== undefined && value <= exclusiveMinimum ? `must be more than ${exclusiveMinimum}` : null;
}

function hasType(node: Node, schema: JsonSchema): boolean {
  const types = typesOf(schema);
  return types.length === 0 || types.some((type) => isOfType(node, type));
}

function isOfType(node: Node, type: JsonType): boolean {
  if (type === 'integer') return node.kind === 'number' && Number.isSafeInteger(node.value);
  if (type === 'number') return node.kind === 'number' && Number.isFinite(node.value);
  return node.kind === type;
}

const TYPE_NAMES = {
  object: 'a map of keys',
  array: 'a list',
  string: 'text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  null: 'null',
} as const;

function wrongType(node: Node, wanted: readonly JsonSchema[], path: string, { source, problems }: ShapeContext): false {
  const types = wanted.flatMap(typesOf).map((type) => TYPE_NAMES[type]);
  const found = TYPE_NAMES[node.kind];
  const message = `${path || 'the document'} must be ${types.join(' or ')}, and is ${found}`;
  problems.error('TL1302', source, node.span, message, fixOf(node, wanted));
  return false;
}

function fixOf(node: Node, wanted: readonly JsonSchema[]): string | undefined {
  const types = wanted.flatMap(typesOf);
  if (node.kind === 'string' && (types.includes('integer') || types.includes('number')) && /^\d+$/.test(node.text)) {
    return `write ${node.text} without quotes`;
  }
  if (node.kind === 'string' && types.includes('boolean') && /^(?:true|false)$/i.test(node.text)) {
    return `write ${node.text.toLowerCase()} without quotes`;
  }
  if (node.kind === 'string' && types.includes('array')) return 'write it as a list: ["…"]';
  if (node.kind === 'number' && types.includes('string')) return `write "${node.text}" in quotes`;
  if (node.kind === 'null') return 'write a value, or leave the key out';
  if (types.includes('integer') && node.kind === 'string')
    return 'write a number without a unit; names of times say theirs (…Ms)';
  if (types.includes('object')) return 'write it as a map: { "name": … }';
  if (node.kind === 'array' && types.includes('string')) return 'write one value, without [ ]';
  return undefined;
}

function listed(values: readonly string[]): string {
  const quoted = values.map((value) => JSON.stringify(value));
  return quoted.length < 2 ? quoted.join('') : `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
}

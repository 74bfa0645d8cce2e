import { MASK } from '../../model/secret.ts';
import type { Origin } from '../../model/server.ts';
import { shownTexts } from '../document/mask-secrets.ts';
import type { Node, ObjectNode, ScalarNode } from '../document/node.ts';
import { withDefaults } from '../document/shape.ts';
import type { Source } from '../problem/problem.ts';
import { serverJsonSchema } from '../schema-json.ts';

/** One value of a definition with its place, or a default without one. */
export interface WrittenValue {
  /** Such as `env.TOKEN` and `args[1]`. */
  readonly key: string;
  /** JSON text: references unexpanded, secrets masked. */
  readonly value: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly column: number | null;
}

interface KeptDefinition {
  readonly node: ObjectNode;
  readonly source: Source;
  /** All known secrets of the document. */
  readonly secrets: ReadonlySet<string>;
}

const DEFINITIONS = new WeakMap<Origin, KeptDefinition>();

/** Keeps the definition that a server with this origin was read from. */
export function keepDefinition(origin: Origin, definition: KeptDefinition): void {
  DEFINITIONS.set(origin, definition);
}

/** The values of the definition, then the defaults of keys that it omits; empty if no text defines the server. */
export function writtenValues(origin: Origin): readonly WrittenValue[] {
  const definition = DEFINITIONS.get(origin);
  if (definition === undefined) return [];
  const { node, source } = definition;
  const secrets = [...definition.secrets].sort((one, other) => other.length - one.length);
  const shown = shownTexts(node);
  const values: WrittenValue[] = [];
  for (const [key, leaf] of leavesOf(node, '')) {
    const text = without(secrets, shown.get(leaf) ?? leaf.text);
    const value = leaf.kind === 'string' || text !== leaf.text ? JSON.stringify(text) : text;
    values.push({ key, value, file: source.file, ...source.position(leaf.span.start) });
  }
  const given = new Set(values.map(({ key }) => key));
  for (const [key, value] of defaultsOf(withDefaults(undefined, serverJsonSchema()), '')) {
    if (!given.has(key)) values.push({ key, value, file: null, line: null, column: null });
  }
  return values;
}

/** Masks secrets in plain text; in JSON text, escapes would hide them. */
function without(secrets: readonly string[], text: string): string {
  return secrets.reduce((rest, secret) => rest.replaceAll(secret, MASK), text);
}

function* leavesOf(node: Node, path: string): Generator<readonly [string, ScalarNode]> {
  if (node.kind === 'object') {
    for (const { key, value } of node.members) yield* leavesOf(value, path === '' ? key : `${path}.${key}`);
  } else if (node.kind === 'array') {
    for (const [at, item] of node.items.entries()) yield* leavesOf(item, `${path}[${at}]`);
  } else yield [path, node];
}

function* defaultsOf(value: unknown, path: string): Generator<readonly [string, string]> {
  if (typeof value !== 'object' || value === null) yield [path, JSON.stringify(value)];
  else if (!Array.isArray(value)) {
    for (const [key, inner] of Object.entries(value)) yield* defaultsOf(inner, path === '' ? key : `${path}.${key}`);
  }
}

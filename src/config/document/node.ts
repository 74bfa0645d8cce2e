import type { TextSpan } from '../problem/problem.ts';

/** A configuration document with the place of everything in it: what the three syntaxes have in common. */
export type Node = ObjectNode | ArrayNode | ScalarNode;

export interface Member {
  readonly key: string;
  readonly keySpan: TextSpan;
  readonly value: Node;
}

export interface ObjectNode {
  readonly kind: 'object';
  readonly span: TextSpan;
  /** In document order. Duplicates were reported while parsing; the first one counts. */
  readonly members: readonly Member[];
}

interface ArrayNode {
  readonly kind: 'array';
  readonly span: TextSpan;
  readonly items: readonly Node[];
}

export interface ScalarNode {
  readonly kind: 'string' | 'number' | 'boolean' | 'null';
  readonly span: TextSpan;
  readonly value: string | number | boolean | null;
  /** A string's value, or a number as it is written (`1.10` stays `1.10` where text is wanted). */
  readonly text: string;
}

/** `written`: as the document has it. */
export function scalar(value: unknown, span: TextSpan, written: string): ScalarNode {
  if (typeof value === 'string') return { kind: 'string', span, value, text: value };
  if (typeof value === 'number') return { kind: 'number', span, value, text: written };
  if (typeof value === 'bigint') return { kind: 'number', span, value: Number(value), text: written };
  if (typeof value === 'boolean') return { kind: 'boolean', span, value, text: written };
  return { kind: 'null', span, value: null, text: written };
}

export function member(node: ObjectNode, key: string): Member | undefined {
  return node.members.find((candidate) => candidate.key === key);
}

export function child(node: ObjectNode, key: string): Node | undefined {
  return member(node, key)?.value;
}

/** The object under `key`, undefined when it is absent or something else. */
export function objectAt(node: ObjectNode, key: string): ObjectNode | undefined {
  const value = child(node, key);
  return value?.kind === 'object' ? value : undefined;
}

export function isString(node: Node | undefined): node is ScalarNode & { readonly kind: 'string' } {
  return node?.kind === 'string';
}

/** The node with other texts in place of its strings. */
export function withTexts(node: Node, change: (text: string) => string): Node {
  if (node.kind === 'array') return { ...node, items: node.items.map((item) => withTexts(item, change)) };
  if (node.kind === 'object') {
    return { ...node, members: node.members.map((one) => ({ ...one, value: withTexts(one.value, change) })) };
  }
  if (!isString(node)) return node;
  const text = change(node.text);
  return text === node.text ? node : scalar(text, node.span, text);
}

/** The document as plain values. Objects have no prototype, so that `__proto__` is a key like any other. */
export function plain(node: Node): unknown {
  if (node.kind === 'array') return node.items.map(plain);
  if (node.kind !== 'object') return node.value;
  const object: Record<string, unknown> = Object.create(null);
  for (const { key, value } of node.members) object[key] = plain(value);
  return object;
}

/** Deepest nesting of a document: twice what any client's file has. */
export const MAX_DEPTH = 64;
/** Parts (values, keys, tokens) of a document: 2 000 servers take about half. Bounds the time of every parser. */
export const MAX_PARTS = 200_000;

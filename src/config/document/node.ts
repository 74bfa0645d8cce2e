import type { TextSpan } from '../problem/problem.ts';

/** A configuration document with the place of each part: the common form of the three syntaxes. */
export type Node = ObjectNode | ArrayNode | ScalarNode;

export interface Member {
  readonly key: string;
  readonly keySpan: TextSpan;
  readonly value: Node;
}

export interface ObjectNode {
  readonly kind: 'object';
  readonly span: TextSpan;
  /** In document order. Parsing reports duplicates and keeps the first one. */
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
  /** The value of a string, or a number as written (`1.10` stays `1.10` if text is needed). */
  readonly text: string;
}

/** `written`: the text in the document. */
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

/** The object under `key`; undefined if it is absent or not an object. */
export function objectAt(node: ObjectNode, key: string): ObjectNode | undefined {
  const value = child(node, key);
  return value?.kind === 'object' ? value : undefined;
}

/** The node without members that are null. */
export function withoutNulls(node: Node): Node {
  if (node.kind === 'array') return { ...node, items: node.items.map(withoutNulls) };
  if (node.kind !== 'object') return node;
  const members = node.members.filter(({ value }) => value.kind !== 'null');
  return { ...node, members: members.map((one) => ({ ...one, value: withoutNulls(one.value) })) };
}

export function isString(node: Node | undefined): node is ScalarNode & { readonly kind: 'string' } {
  return node?.kind === 'string';
}

/** A copy of the node with changed strings. */
export function withTexts(node: Node, change: (text: string) => string): Node {
  if (node.kind === 'array') return { ...node, items: node.items.map((item) => withTexts(item, change)) };
  if (node.kind === 'object') {
    return { ...node, members: node.members.map((one) => ({ ...one, value: withTexts(one.value, change) })) };
  }
  if (!isString(node)) return node;
  const text = change(node.text);
  return text === node.text ? node : scalar(text, node.span, text);
}

/** The document as plain values. Objects have no prototype, so that `__proto__` is an ordinary key. */
export function plain(node: Node): unknown {
  if (node.kind === 'array') return node.items.map(plain);
  if (node.kind !== 'object') return node.value;
  const object: Record<string, unknown> = Object.create(null);
  for (const { key, value } of node.members) object[key] = plain(value);
  return object;
}

/** Maximum nesting of a document: twice that of any client's file. */
export const MAX_DEPTH = 64;
/** Maximum number of parts (values, keys, tokens): 2 000 servers have about half. Bounds the time of every parser. */
export const MAX_PARTS = 200_000;

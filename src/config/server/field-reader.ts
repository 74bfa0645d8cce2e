import { isAbsolute, resolve } from 'node:path';
import type { ClientFormat } from '../client.ts';
import type { Expander } from '../document/expand.ts';
import { child, isString, type Node, type ObjectNode, objectAt, type ScalarNode } from '../document/node.ts';
import type { NamedFiles } from '../document/read-source.ts';
import type { Problems, Source } from '../problem/problem.ts';
import type { ProblemCode } from '../problem/problem-catalogue.ts';

/** Context for reading the definitions of one document. */
export interface ReadingContext {
  readonly source: Source;
  readonly problems: Problems;
  readonly expander: Expander;
  readonly client: ClientFormat;
  /** Treat unknown keys as errors. */
  readonly strict: boolean;
  /** Folder of the document: base of certificate paths and `${file:…}`. */
  readonly fileFolder: string;
  /** Base of all other relative paths. */
  readonly folder: string;
  readonly secrets: Set<string>;
  /** Reads the files that definitions name. */
  readonly files: NamedFiles;
}

/** Typed access to the keys of one server or another map; reports failures. */
export class FieldReader {
  readonly context: ReadingContext;
  readonly node: ObjectNode;
  /** `mcpServers.git`, for messages. */
  readonly path: string;

  constructor(context: ReadingContext, node: ObjectNode, path: string) {
    this.context = context;
    this.node = node;
    this.path = path;
  }

  /** The first of these keys that is present, with its value. */
  first(...keys: readonly string[]): { readonly key: string; readonly node: Node } | null {
    for (const key of keys) {
      const node = child(this.node, key);
      if (node !== undefined && node.kind !== 'null') return { key, node };
    }
    return null;
  }

  /** A reader of the map under `key`; null without one. */
  inner(key: string): FieldReader | null {
    const node = objectAt(this.node, key);
    return node === undefined ? null : new FieldReader(this.context, node, `${this.path}.${key}`);
  }

  has(key: string): boolean {
    return this.first(key) !== null;
  }

  /** A list of strings, without expansion. */
  names(...keys: readonly string[]): readonly string[] | null {
    const found = this.first(...keys);
    return found?.node.kind === 'array' ? found.node.items.filter(isString).map(({ text }) => text) : null;
  }

  /** The expanded text under `key`; null if it is absent, or after a problem. */
  text(key: string): string | null {
    const node = child(this.node, key);
    return isString(node) ? this.context.expander.expand(node, `${this.path}.${key}`) : null;
  }

  /** Like `text`; undefined if it is absent, null after a problem. */
  optionalText(key: string): string | null | undefined {
    return this.has(key) ? this.text(key) : undefined;
  }

  /** A list of expanded words, or with `orText` a single text; null if it is absent, or after a problem. */
  words(key: string, orText = false): string[] | null {
    const node = child(this.node, key);
    if (orText && isString(node)) {
      const text = this.text(key);
      return text === null ? null : [text];
    }
    if (node?.kind !== 'array') return null;
    const words = node.items.map((item, index) => (isWord(item) ? this.word(item, `${key}[${index}]`) : null));
    return words.every((word) => word !== null) ? words : null;
  }

  /** Like `words`, with references to possible secrets unexpanded. */
  writtenWords(key: string): string[] {
    const node = child(this.node, key);
    const words = isString(node) ? [node] : node?.kind === 'array' ? node.items.filter(isWord) : [];
    return words.map((word) => (isString(word) ? this.context.expander.expandKeepingReferences(word) : word.text));
  }

  word(node: ScalarNode, inner: string, shellNames = false): string | null {
    return isString(node) ? this.context.expander.expand(node, `${this.path}.${inner}`, shellNames) : node.text;
  }

  /** Warns of keys that have no effect here; `where` says why, as in "on a stdio server". */
  warnUseless(keys: readonly string[], where: string): void {
    for (const key of keys) {
      const useless = this.first(key);
      if (useless === null) continue;
      this.warn('TL1307', useless.node, `${this.path}.${key} has no effect ${where}`);
    }
  }

  error(code: ProblemCode, node: Node | null, message: string, fix?: string): void {
    this.context.problems.error(code, this.context.source, (node ?? this.node).span, message, fix);
  }

  warn(code: ProblemCode, node: Node, message: string, fix?: string): void {
    this.context.problems.warn(code, this.context.source, node.span, message, fix);
  }

  /** Resolves a path: `~/x` from home, relative ones from the configuration's folder. */
  resolvePath(path: string): string {
    const { folder, expander } = this.context;
    const full = expander.fromHome(path);
    return isAbsolute(full) ? full : resolve(folder, full);
  }

  /** Resolves the path of a program; leaves a bare name to the PATH. */
  resolveCommand(command: string): string {
    return /[/\\]/.test(command) || command === '~' ? this.resolvePath(command) : command;
  }
}

export function isWord(node: Node): node is ScalarNode {
  return node.kind === 'string' || node.kind === 'number' || node.kind === 'boolean';
}

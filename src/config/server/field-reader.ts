import { isAbsolute, resolve } from 'node:path';
import type { ClientFormat } from '../client.ts';
import type { Expander } from '../document/expand.ts';
import { child, isString, type Node, type ObjectNode, objectAt, type ScalarNode } from '../document/node.ts';
import type { Problems, Source } from '../problem/problem.ts';
import type { ProblemCode } from '../problem/problem-catalogue.ts';

/** What the definitions of one document are read with. */
export interface ReadingContext {
  readonly source: Source;
  readonly problems: Problems;
  readonly expander: Expander;
  readonly client: ClientFormat;
  /** Unknown keys are errors. */
  readonly strict: boolean;
  /** Of the document: certificates and `${file:…}` start here. */
  readonly fileFolder: string;
  /** Where all other relative paths start. */
  readonly folder: string;
  readonly home: string;
  readonly secrets: Set<string>;
  /** Gets the files whose change is a change of the configuration. */
  readonly files: Set<string>;
}

/** Reading one server (or another map of keys): typed access whose failures were or are reported. */
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

  /** The value under the first of these keys that is present, with that key. */
  first(...keys: readonly string[]): { readonly key: string; readonly node: Node } | null {
    for (const key of keys) {
      const node = child(this.node, key);
      if (node !== undefined && node.kind !== 'null') return { key, node };
    }
    return null;
  }

  /** A reader of the map under `key`; null where there is none. */
  inner(key: string): FieldReader | null {
    const node = objectAt(this.node, key);
    return node === undefined ? null : new FieldReader(this.context, node, `${this.path}.${key}`);
  }

  has(key: string): boolean {
    return this.first(key) !== null;
  }

  /** A list of strings that are taken as they are. */
  names(...keys: readonly string[]): readonly string[] | null {
    const found = this.first(...keys);
    return found?.node.kind === 'array' ? found.node.items.filter(isString).map(({ text }) => text) : null;
  }

  /** The text under `key` with its references replaced; null where it is absent or failed. */
  text(key: string): string | null {
    const node = child(this.node, key);
    return isString(node) ? this.context.expander.expand(node, `${this.path}.${key}`) : null;
  }

  /** As `text`; undefined where it is absent, null after a problem. */
  given(key: string): string | null | undefined {
    return this.has(key) ? this.text(key) : undefined;
  }

  /** A list of words with references replaced, or one text where that may be; null where it is absent, or after a problem. */
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

  /** As `words`, with references to what may be secret as they are written. */
  writtenWords(key: string): string[] {
    const node = child(this.node, key);
    const words = isString(node) ? [node] : node?.kind === 'array' ? node.items.filter(isWord) : [];
    return words.map((word) => (isString(word) ? this.context.expander.written(word) : word.text));
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

  /** A path of a configuration: `~/x` from home, relative ones from the configuration's folder. */
  placed(path: string): string {
    const { folder, home } = this.context;
    if (path === '~' || path.startsWith('~/')) return resolve(home, path.slice(2));
    return isAbsolute(path) ? path : resolve(folder, path);
  }

  /** The same for a program: a bare name is left to the PATH. */
  placedCommand(command: string): string {
    return /[/\\]/.test(command) || command === '~' ? this.placed(command) : command;
  }
}

export function isWord(node: Node): node is ScalarNode {
  return node.kind === 'string' || node.kind === 'number' || node.kind === 'boolean';
}

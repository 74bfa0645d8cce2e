import { Composer, type Document, isAlias, isMap, isScalar, isSeq, Lexer, Parser, type Node as YamlNode } from 'yaml';
import { type Problems, reportDuplicate, type Source, type TextSpan } from '../problem/problem.ts';
import { MAX_DEPTH, MAX_PARTS, type Member, type Node, scalar } from './node.ts';

const PLAIN_TAGS = /^(?:tag:yaml\.org,2002:|!!)(?:str|int|float|bool|null|map|seq)$/;

/**
 * YAML 1.2, core schema. Aliases and merge keys work, but what they expand to is bounded; tags beyond the core
 * ones are refused; keys become strings.
 */
export function parseYaml(source: Source, problems: Problems): Node | null {
  const document = compose(source, problems);
  if (document === null) return null;
  for (const { message, pos } of document.errors.slice(0, 5)) {
    const span = { start: pos[0], end: Math.max(pos[1], pos[0] + 1) };
    if (message.includes('call stack')) {
      problems.error('TL1102', source, span, 'the document is nested too deeply');
      break;
    }
    const code = message.includes('tag') ? 'TL1104' : message.includes('alias') ? 'TL1105' : 'TL1101';
    problems.error(code, source, span, message.split('\n', 1)[0]!);
  }
  if (document.errors.length > 0 || document.contents === null) return null;
  const builder = new Builder(source, problems);
  const root = builder.build(document.contents, 0);
  return builder.gaveUp ? null : root;
}

/** Lexing first, by itself: it is linear, and what it counts bounds the parser and composer, which are not. */
function compose(source: Source, problems: Problems): Document.Parsed | null {
  let parts = 0;
  let depth = 0;
  let offset = 0;
  for (const token of new Lexer().lex(source.text)) {
    if (token === '[' || token === '{') depth++;
    else if (token === ']' || token === '}') depth--;
    parts++;
    if (depth > MAX_DEPTH || parts > MAX_PARTS) {
      const span = { start: Math.min(offset, source.text.length), end: Math.min(offset + 1, source.text.length) };
      const why = depth > MAX_DEPTH ? `more than ${MAX_DEPTH} levels` : 'too many values';
      problems.error('TL1102', source, span, `${why} in one document`);
      return null;
    }
    // Tokens of one character in the private range mark structure and take no room in the text.
    if (!/^[\u0002\u0018\u001f\ufeff]/.test(token)) offset += token.length;
  }
  const composer = new Composer({ prettyErrors: false, uniqueKeys: false, strict: true, version: '1.2' });
  const documents = [...composer.compose(new Parser().parse(source.text), true, source.text.length)];
  const [document, second] = documents;
  if (second !== undefined) {
    const [start, end] = second.range;
    problems.error('TL1101', source, { start, end }, 'a second document begins here: only one is read', 'remove it');
    return null;
  }
  return document ?? null;
}

class Builder {
  /** The anchors met so far, and the target of each alias: the library's own look-up is quadratic. */
  readonly #anchors = new Map<string, YamlNode>();
  readonly #targets = new Map<YamlNode, YamlNode | undefined>();
  readonly #source: Source;
  readonly #problems: Problems;
  readonly #open = new Set<YamlNode>();
  #parts = 0;
  #gaveUp = false;

  get gaveUp(): boolean {
    return this.#gaveUp;
  }

  constructor(source: Source, problems: Problems) {
    this.#source = source;
    this.#problems = problems;
  }

  /** Null once the bounds are exceeded: then the document has been given up and reported. */
  build(node: YamlNode | null, depth: number, alias: TextSpan | null = null): Node | null {
    const span = alias ?? spanOf(node);
    if (this.#gaveUp || !this.#withinBounds(span, depth)) return null;
    if (node === null) return { kind: 'null', span, value: null, text: '' };
    if (node.tag !== undefined && !PLAIN_TAGS.test(node.tag)) this.#refuseTag(node.tag, span);
    if (alias === null && !isAlias(node) && node.anchor) this.#anchors.set(node.anchor, node);
    if (isAlias(node)) return this.#follow(node, span, depth);
    if (isScalar(node)) return scalar(node.value, span, this.#written(node.range));
    if (this.#open.has(node)) return this.#giveUp('TL1105', span, 'this alias refers to the value it is part of');
    this.#open.add(node);
    const built = isSeq(node) ? this.#array(node.items, span, depth, alias) : this.#object(node, span, depth, alias);
    this.#open.delete(node);
    return built;
  }

  #refuseTag(tag: string, { start: valueStart }: TextSpan): void {
    const text = this.#source.text;
    const mark = Math.max(text.lastIndexOf('!', valueStart), 0);
    const start = text[mark - 1] === '!' ? mark - 1 : mark;
    const end = Math.max(text.slice(0, valueStart).trimEnd().length, start + 1);
    const written = tag.replace('tag:yaml.org,2002:', '!!');
    this.#problems.error('TL1104', this.#source, { start, end }, `the tag ${JSON.stringify(written)} is not accepted`);
  }

  #follow(node: YamlNode, span: TextSpan, depth: number): Node | null {
    if (isAlias(node) && !this.#targets.has(node)) this.#targets.set(node, this.#anchors.get(node.source));
    const target = this.#targets.get(node);
    if (target === undefined) return this.#giveUp('TL1105', span, 'there is no anchor of this name above');
    return this.build(target, depth, span);
  }

  #array(items: readonly unknown[], span: TextSpan, depth: number, alias: TextSpan | null): Node | null {
    const built: Node[] = [];
    for (const item of items) {
      const value = this.build(item as YamlNode | null, depth + 1, alias);
      if (value !== null) built.push(value);
    }
    return { kind: 'array', span, items: built };
  }

  #object(node: YamlNode, span: TextSpan, depth: number, alias: TextSpan | null): Node | null {
    const members = new Map<string, Member>();
    const merged: Member[] = [];
    for (const pair of isMap(node) ? node.items : []) {
      const key = pair.key as YamlNode | null;
      const keySpan = alias ?? spanOf(key);
      if (key !== null && !isScalar(key)) {
        this.#problems.error('TL1101', this.#source, keySpan, 'a key must be a plain name');
        continue;
      }
      const value = this.build(pair.value as YamlNode | null, depth + 1, alias);
      if (value === null) continue;
      const name = key === null ? '' : typeof key.value === 'string' ? key.value : this.#written(key.range);
      if (name === '<<' && key?.type === 'PLAIN') merged.push(...this.#mergeable(value, keySpan));
      else if (!members.has(name)) members.set(name, { key: name, keySpan, value });
      else if (alias === null) reportDuplicate(name, keySpan, members.get(name)!.keySpan, this.#source, this.#problems);
    }
    for (const member of merged) if (!members.has(member.key)) members.set(member.key, member);
    return { kind: 'object', span, members: [...members.values()] };
  }

  #mergeable(value: Node, span: TextSpan): readonly Member[] {
    if (value.kind === 'object') return value.members;
    if (value.kind === 'array' && value.items.every((item) => item.kind === 'object')) {
      return value.items.flatMap((item) => (item.kind === 'object' ? item.members : []));
    }
    this.#problems.error('TL1105', this.#source, span, 'a merge key "<<" takes a map or a list of maps');
    return [];
  }

  #withinBounds(span: TextSpan, depth: number): boolean {
    if (depth > MAX_DEPTH) this.#giveUp('TL1102', span, `more than ${MAX_DEPTH} levels in one document`);
    else if (++this.#parts > MAX_PARTS) this.#giveUp('TL1105', span, 'the aliases of this document expand to too much');
    return !this.#gaveUp;
  }

  #giveUp(code: 'TL1102' | 'TL1105', span: TextSpan, message: string): null {
    this.#gaveUp = true;
    this.#problems.error(code, this.#source, span, message);
    return null;
  }

  #written(range: readonly [number, number, number] | null | undefined): string {
    return range ? this.#source.text.slice(range[0], range[1]) : '';
  }
}

function spanOf(node: YamlNode | null): TextSpan {
  const [start, end] = node?.range ?? [0, 0];
  return { start, end: Math.max(end, start) };
}

import { Composer, type Document, isAlias, isMap, isScalar, isSeq, Lexer, Parser, type Node as YamlNode } from 'yaml';
import { type Problems, reportDuplicate, type Source, type TextSpan } from '../problem/problem.ts';
import { MAX_DEPTH, MAX_PARTS, type Member, type Node, scalar } from './node.ts';
import { syntaxFix } from './syntax-fix.ts';

const PLAIN_TAGS = /^(?:tag:yaml\.org,2002:|!!)(?:str|int|float|bool|null|map|seq)$/;

/**
 * Parses YAML 1.2, core schema. Bounds the expansion of aliases and merge keys, refuses tags beyond the core ones, and turns
 * keys into strings.
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
    const words = message.split('\n', 1)[0]!;
    problems.error(code, source, span, words, code === 'TL1101' ? syntaxFix(source, span, words) : undefined);
  }
  if (document.errors.length > 0 || document.contents === null) return null;
  return built(document.contents, source, problems);
}

/** Runs the lexer alone first: it takes linear time, and its counts bound the parser and composer, which do not. */
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
    // Single characters of the private range mark structure and have no length in the text.
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

/** The nodes of a document; null if it exceeds the bounds, which is then reported. */
function built(contents: YamlNode, source: Source, problems: Problems): Node | null {
  /** The anchors so far, and the target of each alias: the library's own lookup is quadratic. */
  const anchors = new Map<string, YamlNode>();
  const targets = new Map<YamlNode, YamlNode | undefined>();
  const open = new Set<YamlNode>();
  let parts = 0;
  let gaveUp = false;

  const giveUp = (code: 'TL1102' | 'TL1105', span: TextSpan, message: string): null => {
    gaveUp = true;
    problems.error(code, source, span, message);
    return null;
  };
  const written = (range: YamlNode['range']): string => (range ? source.text.slice(range[0], range[1]) : '');

  function build(node: YamlNode | null, depth: number, alias: TextSpan | null = null): Node | null {
    const span = alias ?? spanOf(node);
    if (gaveUp) return null;
    if (depth > MAX_DEPTH) return giveUp('TL1102', span, `more than ${MAX_DEPTH} levels in one document`);
    if (++parts > MAX_PARTS) return giveUp('TL1105', span, 'the aliases of this document expand to too much');
    if (node === null) return { kind: 'null', span, value: null, text: '' };
    if (node.tag !== undefined && !PLAIN_TAGS.test(node.tag)) refuseTag(node.tag, span);
    if (alias === null && !isAlias(node) && node.anchor) anchors.set(node.anchor, node);
    if (isAlias(node)) {
      if (!targets.has(node)) targets.set(node, anchors.get(node.source));
      const target = targets.get(node);
      if (target === undefined) return giveUp('TL1105', span, 'there is no anchor of this name above');
      return build(target, depth, span);
    }
    if (isScalar(node)) return scalar(node.value, span, written(node.range));
    if (open.has(node)) return giveUp('TL1105', span, 'this alias refers to the value it is part of');
    open.add(node);
    const made = isSeq(node)
      ? { kind: 'array' as const, span, items: array(node.items, depth, alias) }
      : { kind: 'object' as const, span, members: object(node, depth, alias) };
    open.delete(node);
    return made;
  }

  function refuseTag(tag: string, { start: valueStart }: TextSpan): void {
    const { text } = source;
    const mark = Math.max(text.lastIndexOf('!', valueStart), 0);
    const start = text[mark - 1] === '!' ? mark - 1 : mark;
    const end = Math.max(text.slice(0, valueStart).trimEnd().length, start + 1);
    const shown = tag.replace('tag:yaml.org,2002:', '!!');
    problems.error('TL1104', source, { start, end }, `the tag ${JSON.stringify(shown)} is not accepted`);
  }

  function array(items: readonly unknown[], depth: number, alias: TextSpan | null): readonly Node[] {
    return items.flatMap((item) => build(item as YamlNode | null, depth + 1, alias) ?? []);
  }

  function object(node: YamlNode, depth: number, alias: TextSpan | null): readonly Member[] {
    const members = new Map<string, Member>();
    const merged: Member[] = [];
    for (const pair of isMap(node) ? node.items : []) {
      const key = pair.key as YamlNode | null;
      const keySpan = alias ?? spanOf(key);
      if (key !== null && !isScalar(key)) {
        problems.error('TL1101', source, keySpan, 'a key must be a plain name');
        continue;
      }
      const value = build(pair.value as YamlNode | null, depth + 1, alias);
      if (value === null) continue;
      const name = key === null ? '' : typeof key.value === 'string' ? key.value : written(key.range);
      if (name === '<<' && key?.type === 'PLAIN') merged.push(...mergeable(value, keySpan));
      else if (!members.has(name)) members.set(name, { key: name, keySpan, value });
      else if (alias === null) reportDuplicate(name, keySpan, members.get(name)!.keySpan, source, problems);
    }
    for (const member of merged) if (!members.has(member.key)) members.set(member.key, member);
    return [...members.values()];
  }

  function mergeable(value: Node, span: TextSpan): readonly Member[] {
    if (value.kind === 'object') return value.members;
    if (value.kind === 'array' && value.items.every((item) => item.kind === 'object')) {
      return value.items.flatMap((item) => (item.kind === 'object' ? item.members : []));
    }
    problems.error('TL1105', source, span, 'a merge key "<<" takes a map or a list of maps');
    return [];
  }

  const root = build(contents, 0);
  return gaveUp ? null : root;
}

function spanOf(node: YamlNode | null): TextSpan {
  const [start, end] = node?.range ?? [0, 0];
  return { start, end: Math.max(end, start) };
}

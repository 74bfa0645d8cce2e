import { isDeepStrictEqual } from 'node:util';
import {
  type Node as JsonNode,
  type ParseError,
  parse as parseJson,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser';
import { parse as parseToml, stringify as stringifyToml } from 'smol-toml';
import { type Document, isMap, isNode, isPair, isScalar, isSeq, parseDocument, stringify as stringifyYaml } from 'yaml';
import { isObject } from '../../model/json-object.ts';
import type { ClientApp } from './clients.ts';

/** Why a client's file cannot be edited. */
export class NotEditable extends Error {}

/** The byte-order mark, which some editors write. */
const MARK = '\ufeff';

type Layout = Pick<ClientApp, 'syntax' | 'container' | 'isList'>;

/**
 * Returns the text with the entry under this name; null removes the entry. Keeps everything else, also comments and order.
 * Returns the same text if nothing changes. Throws NotEditable for invalid syntax, and for a file that the edit would damage.
 */
export function withEntry(text: string, layout: Layout, name: string, entry: object | null): string {
  if (text.startsWith(MARK)) return MARK + withEntry(text.slice(1), layout, name, entry);
  const now = entryIn(text, layout, name);
  if (entry === null ? now === undefined : JSON.stringify(now) === JSON.stringify(entry)) return text;
  const path = [...layout.container, name];
  const edited =
    layout.syntax === 'json'
      ? jsonWith(text, path, entry)
      : layout.syntax === 'toml'
        ? tomlWith(text, path, entry)
        : yamlWith(text, layout, name, entry);
  checkEdit(text, edited, layout, name, entry);
  return edited;
}

/** Throws NotEditable unless the edited text is valid and has this entry, or no longer has it, and the others as before. */
function checkEdit(text: string, edited: string, layout: Layout, name: string, entry: object | null): void {
  const { container, isList, syntax } = layout;
  const place = container.join('.');
  // A header cannot extend an inline table, nor an array.
  const advice =
    syntax === 'toml'
      ? `${place} cannot be changed as it is written; write each server as a table of its own: [${place}.<name>]`
      : `a key is there twice, or another part refers to ${place}.${name}; change it by hand`;
  const others = othersIn(text, layout, name);
  try {
    // A list may have a second one of this name.
    const isDone = (isList === true && entry === null) || isSame(entryIn(edited, layout, name) ?? null, entry);
    if (isDone && isSame(othersIn(edited, layout, name), others)) return;
  } catch (cause) {
    throw new NotEditable(advice, { cause });
  }
  throw new NotEditable(advice);
}

/** Returns all servers except those of this name. */
function othersIn(text: string, { syntax, container, isList }: Layout, name: string): unknown {
  const servers = valueAt(contentOf(text, syntax), container);
  if (isList === true) return listed(servers).filter((one) => one?.name !== name);
  return Object.fromEntries(Object.entries(servers ?? {}).filter(([key]) => key !== name));
}

/** As JSON, without regard to the order of keys. */
function isSame(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(JSON.parse(JSON.stringify(one)), JSON.parse(JSON.stringify(other)));
}

/** Returns the entry under this name; undefined if there is none. */
export function entryIn(text: string, layout: Layout, name: string): unknown {
  const servers = valueAt(contentOf(text, layout.syntax), layout.container);
  if (layout.isList !== true) return valueAt(servers, [name]) ?? undefined;
  const found = listed(servers).find((one) => one?.name === name);
  if (found == null) return undefined;
  const { name: _, ...entry } = found as { name: string };
  return entry;
}

/** Returns the names of all servers in the file. */
export function namesIn(text: string, { syntax, container, isList }: Layout): readonly string[] {
  const servers = valueAt(contentOf(text, syntax), container);
  return isList === true ? listed(servers).map((one) => String(one?.name)) : Object.keys(servers ?? {});
}

/** Returns what is at the end of the path; undefined if a part of it is missing. */
function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (at as Record<string, unknown> | null | undefined)?.[key], value);
}

function listed(servers: unknown): readonly ({ readonly name?: unknown } | null)[] {
  return Array.isArray(servers) ? servers : [];
}

function contentOf(marked: string, syntax: Layout['syntax']): unknown {
  const text = marked.startsWith(MARK) ? marked.slice(1) : marked;
  if (text.trim() === '') return {};
  try {
    // Throws for an alias without an anchor.
    if (syntax === 'yaml') return documentOf(text).toJS();
    if (syntax === 'toml') return parseToml(text);
  } catch (error) {
    throw new NotEditable((error as Error).message.split('\n')[0]);
  }
  const errors: ParseError[] = [];
  const value = parseJson(text, errors, { allowTrailingComma: true });
  const [first] = errors;
  if (first !== undefined) {
    const line = text.slice(0, first.offset).split('\n').length;
    throw new NotEditable(`line ${line}: ${printParseErrorCode(first.error)}`);
  }
  if (!isObject(value)) throw new NotEditable('it is no JSON object');
  return value;
}

/** Inserts, replaces or removes one property; no other byte changes. */
function jsonWith(text: string, path: readonly string[], entry: object | null): string {
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  const indent = /^([ \t]+)\S/m.exec(text)?.[1] ?? '  ';
  const written = (value: unknown, depth: number): string =>
    JSON.stringify(value, null, indent).replaceAll('\n', eol + indent.repeat(depth));
  const root = parseTree(text, [], { allowTrailingComma: true });
  if (root === undefined) return entry === null ? text : `${written(nested(path, entry), 0)}${eol}`;
  let object = root;
  for (const [depth, key] of path.entries()) {
    const property = (object.children ?? []).find((one) => one.children![0]!.value === key);
    const isEntry = depth === path.length - 1;
    if (property === undefined) {
      if (entry === null) return text;
      return inserted(
        text,
        object,
        `${JSON.stringify(key)}: ${written(nested(path.slice(depth + 1), entry), depth + 1)}`,
        indent.repeat(depth),
        indent,
        eol,
      );
    }
    const value = property.children![1]!;
    if (isEntry && entry === null) return cut(text, object, property);
    if (isEntry) return spliced(text, value.offset, value.offset + value.length, written(entry, depth + 1));
    if (value.type !== 'object') throw new NotEditable(`"${key}" is no object`);
    object = value;
  }
  return text;
}

function nested(path: readonly string[], entry: unknown): unknown {
  return path.reduceRight<unknown>((value, key) => ({ [key]: value }), entry);
}

function spliced(text: string, start: number, end: number, insert: string): string {
  return text.slice(0, start) + insert + text.slice(end);
}

const endOf = ({ offset, length }: JsonNode): number => offset + length;

/** `outer`: the indentation of the object's own line. */
function inserted(
  text: string,
  object: JsonNode,
  property: string,
  outer: string,
  indent: string,
  eol: string,
): string {
  const last = object.children?.at(-1);
  if (last === undefined) {
    const end = endOf(object) - 1;
    // Comments may be all that is in it.
    const inner = text.slice(object.offset + 1, end).trimEnd();
    const body = `${inner}${eol}${outer}${indent}${property}${eol}${outer}`;
    return spliced(text, object.offset + 1, end, body);
  }
  const first = object.children![0]!;
  const lead = /(?:^|\n)([ \t]*)$/.exec(text.slice(0, first.offset))?.[1];
  const comma = commaAfter(text, endOf(last));
  // After a comment that may follow the last property.
  const from = comma ?? endOf(last);
  const rest = /^[ \t]*(?:\/\/[^\r\n]*|\/\*[^\n]*?\*\/[ \t]*(?=\r?\n))?/.exec(text.slice(from))![0].length;
  const own = lead === undefined ? ` ${property}` : `${eol}${lead}${property}`;
  const at = lead === undefined ? from : from + rest;
  const grown = spliced(text, at, at, comma === null ? own : `${own},`);
  return comma === null ? spliced(grown, endOf(last), endOf(last), ',') : grown;
}

/** Returns where the comma after a property ends; null if there is none. */
function commaAfter(text: string, end: number): number | null {
  const between = /^(?:\s|\/\/[^\n]*\n|\/\*[\s\S]*?\*\/)*,/.exec(text.slice(end));
  return between === null ? null : end + between[0].length;
}

function cut(text: string, object: JsonNode, property: JsonNode): string {
  const all = object.children!;
  const at = all.indexOf(property);
  const comma = commaAfter(text, endOf(property));
  const lead = /(?:\r?\n)?[ \t]*$/.exec(text.slice(0, property.offset))![0].length;
  const without = spliced(text, property.offset - lead, comma ?? endOf(property), '');
  const before = all[at - 1];
  if (comma !== null || before === undefined) return without;
  // It was the last property: the comma before it goes too.
  const separator = commaAfter(text, endOf(before));
  return separator === null ? without : spliced(without, separator - 1, separator, '');
}

/** Writes the entry as a table at the end; removes one with its lines up to the next table. */
function tomlWith(text: string, path: readonly string[], entry: object | null): string {
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  const header = path.map((key) => (/^[\w-]+$/.test(key) ? key : JSON.stringify(key))).join('.');
  const lines = text.split(/(?<=\n)/);
  const isOurs = (line: string): boolean => {
    const table = /^\s*\[+\s*([^\]]+?)\s*\]+/.exec(line)?.[1]?.replaceAll(/\s*\.\s*/g, '.');
    return table === header || table?.startsWith(`${header}.`) === true;
  };
  // Within a value of several lines the text before such a line is not valid.
  const isHeader = (at: number): boolean => {
    try {
      parseToml(lines.slice(0, at).join(''));
      return true;
    } catch {
      return false;
    }
  };
  const kept: string[] = [];
  // Comments and empty lines after its last key belong to what follows.
  let after: string[] = [];
  let ours = false;
  for (const [at, line] of lines.entries()) {
    if (/^\s*\[/.test(line) && (ours || isOurs(line)) && isHeader(at)) {
      ours = isOurs(line);
      if (!ours) kept.push(...after);
      after = [];
    }
    if (!ours) kept.push(line);
    else if (/^\s*(?:#.*)?\s*$/.test(line)) after.push(line);
    else after = [];
  }
  kept.push(...after);
  const rest = kept.join('');
  // The entry is inline or dotted in another table, which this editor does not split.
  if (valueAt(contentOf(rest, 'toml'), path) !== undefined)
    throw new NotEditable(`${path.join('.')} is not a table of its own; write it as [${header}]`);
  if (entry === null) return rest.replace(/(\r?\n)(?:\r?\n)+$/, '$1');
  const block = stringifyToml(nested(path, entry)).replaceAll('\n', eol).trimEnd();
  return `${rest.trimEnd() === '' ? '' : `${rest.trimEnd()}${eol}${eol}`}${block}${eol}`;
}

function documentOf(text: string): Document {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error !== undefined) throw new NotEditable(error.message.split('\n')[0]);
  return document;
}

function yamlWith(text: string, layout: Layout, name: string, entry: object | null): string {
  const { container, isList } = layout;
  const document = documentOf(text);
  if (document.contents === null)
    return withFinalNewline(text) + stringifyYaml(nested(container, isList ? [{ name, ...entry }] : { [name]: entry }));
  if (!isMap(document.contents)) throw new NotEditable('it is no map of keys');
  const node = document.getIn(container, true);
  const isFitting = isList ? isSeq(node) : isMap(node);
  if (node !== undefined && !isFitting && !(isScalar(node) && node.value === null))
    throw new NotEditable(`${container.join('.')} is no ${isList ? 'list' : 'map'}`);
  const items = isMap(node) || isSeq(node) ? node.items : [];
  const at = items.findIndex(
    (item) => (isPair(item) ? String(item.key) : isMap(item) ? item.get('name') : null) === name,
  );
  const block = (isMap(node) || isSeq(node)) && node.flow !== true && items.length > 0;
  // In block style the lines of other entries stay unchanged.
  if (block && (at >= 0 || entry !== null)) {
    // Comments and empty lines after the entry belong to what follows. A new one comes after the last.
    const to = lineAfter(text, endOfItem(items.at(at)));
    const from = at < 0 ? to : lineAt(text, startOf(items[at]));
    if (entry === null && items.length > 1) return spliced(text, from, to, '');
    if (entry !== null) {
      const indent = /^ */.exec(text.slice(lineAt(text, startOf(items[0]))))![0];
      const body = stringifyYaml(isList ? [{ name, ...entry }] : { [name]: entry }).replaceAll(/^(?=.)/gm, indent);
      return withFinalNewline(text.slice(0, from)) + body + text.slice(to);
    }
  }
  if (entry === null) document.deleteIn([...container, isList ? at : name]);
  else if (!isFitting)
    document.setIn(container, document.createNode(isList ? [{ name, ...entry }] : { [name]: entry }));
  else
    document.setIn(
      [...container, isList ? items.length : name],
      document.createNode(isList ? { name, ...entry } : entry),
    );
  return document.toString({ lineWidth: 0 });
}

/** Returns the text with the end of its last line. */
function withFinalNewline(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

function startOf(item: unknown): number {
  const node = isPair(item) ? item.key : item;
  return isNode(node) ? (node.range?.[0] ?? 0) : 0;
}

function endOfItem(item: unknown): number {
  const node = isPair(item) ? (item.value ?? item.key) : item;
  return isNode(node) ? (node.range?.[1] ?? 0) : 0;
}

function lineAt(text: string, offset: number): number {
  return text.lastIndexOf('\n', offset - 1) + 1;
}

/** Returns the start of the next line, or `offset` if that is the start of a line. */
function lineAfter(text: string, offset: number): number {
  if (text[offset - 1] === '\n') return offset;
  const at = text.indexOf('\n', offset);
  return at < 0 ? text.length : at + 1;
}

import { SanitizedText } from '../../model/sanitized-text.ts';
import { isSecretAssignment, isSecretHeader, isSecretVariable, MASK } from '../../model/secret.ts';
import type { Source, TextSpan } from '../problem/problem.ts';
import { isString, type Node, type ScalarNode } from './node.ts';

/**
 * The strings of a text that may not be a valid document: quoted ones, items of a YAML list, and values after an unquoted key.
 * Every part is bounded, so that any text takes linear time.
 */
const LITERAL =
  /"((?:[^"\\\n]|\\.){0,4096})"?|'([^'\n]{0,4096})'?|(?<=^[ \t]{0,256}-[ \t]{1,16})([^\s"'-][^\n:]{0,4096}|-[^\n]{1,4096})|(?<![\w.-])([\w.-]{1,64}[ \t]{0,16}[:=][ \t]{1,16})([^\s"'{[|>&*][^\n]{0,4096})/gm;
const BEHIND_KEY = /\s{0,16}[:=]/y;

type Keep = (value: string) => void;

/** Masks the secrets of an unparsed text, including its comments, so that no code frame shows them. */
export function maskText(source: Source): void {
  const { text } = source;
  mask(source, { start: 0, end: text.length }, new SanitizedText(text, [], null, true).words(false), text);
  let key = '';
  let before = '';
  for (const { 0: whole, 1: double, 2: single, 3: item, 4: bareKey, 5: value, index } of text.matchAll(LITERAL)) {
    const literal = double ?? single ?? item ?? value ?? '';
    const at = item === undefined && value === undefined ? index + 1 : index + whole.length - literal.length;
    const name = bareKey?.replace(/[ \t]*[:=][ \t]*$/, '') ?? key;
    const plain = literal.replace(/\\(.)/g, '$1');
    const sanitized = new SanitizedText(plain, [], null, true);
    const hidden = isSecretAssignment(name, literal) ? sanitized.whole() : sanitized.argument(before);
    mask(source, { start: at, end: at + literal.length }, hidden, plain);
    before = literal;
    BEHIND_KEY.lastIndex = index + whole.length;
    key = BEHIND_KEY.test(text) ? literal : '';
  }
}

/** Masks the secrets of a parsed document. */
export function maskSecrets(source: Source, root: Node): void {
  for (const [{ text, span }, swept] of sanitizedStrings(root, null)) {
    mask(source, inner(source, span), swept, text);
  }
}

/** The texts of a definition for display: references unexpanded and without defaults, secrets masked. */
export function shownTexts(definition: Node): ReadonlyMap<ScalarNode, string> {
  const shown = new Map<ScalarNode, string>();
  for (const [node, swept] of sanitizedStrings(definition, null, '', isWritten)) {
    let text = '';
    let from = 0;
    for (const { start, end } of swept.parts()) {
      text += `${node.text.slice(from, start)}${MASK}`;
      from = end;
    }
    shown.set(node, text + node.text.slice(from));
  }
  return shown;
}

/** Values in an unexpanded definition that are certainly secrets, for the log redaction. */
export function secretsIn(definition: Node): Set<string> {
  const secrets = new Set<string>();
  for (const _ of sanitizedStrings(definition, (value) => secrets.add(value)));
  return secrets;
}

/** Includes numbers, since a password may be one. */
function isWritten(node: Node): node is ScalarNode {
  return node.kind === 'string' || node.kind === 'number';
}

function* sanitizedStrings(
  node: Node,
  keep: Keep | null,
  under = '',
  takes: (node: Node) => node is ScalarNode = isString,
): Generator<readonly [ScalarNode, SanitizedText]> {
  const sanitized = (text: string): SanitizedText => new SanitizedText(text, [], keep, true);
  if (node.kind === 'array') {
    let before = '';
    for (const item of node.items) {
      if (takes(item)) {
        const text = sanitized(item.text);
        yield [item, isSecretAssignment(under, item.text) ? text.whole() : text.argument(before)];
      } else yield* sanitizedStrings(item, keep, '', takes);
      before = takes(item) ? item.text : '';
    }
  }
  if (node.kind !== 'object') return;
  for (const { key, value } of node.members) {
    if (takes(value)) {
      const secret = isSecret(under, key, value.text);
      yield [value, secret ? sanitized(value.text).whole() : sanitized(value.text).words(false)];
    } else yield* sanitizedStrings(value, keep, key, takes);
  }
}

/** `under`: the key of the map that contains `key`. */
function isSecret(under: string, key: string, value: string): boolean {
  if (/^(?:http_|env_http_)?headers$/i.test(under)) return isSecretHeader(key);
  if (/^env(?:ironment)?$/i.test(under)) return isSecretVariable(key, value);
  return isSecretAssignment(key, value);
}

function mask(source: Source, within: TextSpan, sanitized: SanitizedText, text: string): void {
  const parts = sanitized.parts();
  if (source.text.slice(within.start, within.end) === text) {
    for (const { start, end } of parts) source.mask({ start: within.start + start, end: within.start + end });
    // With escapes the offsets differ, so the whole is masked.
  } else if (parts.length > 0) source.mask(within);
}

/** The span without quotes. */
function inner(source: Source, { start, end }: TextSpan): TextSpan {
  const quoted = /["']/.test(source.text[start] ?? '');
  return quoted ? { start: start + 1, end: end - 1 } : { start, end };
}

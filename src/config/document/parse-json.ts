import { createScanner, type Node as JsonNode, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import { type Problems, reportDuplicate, type Source, type TextSpan } from '../problem/problem.ts';
import { MAX_DEPTH, MAX_PARTS, type Member, type Node, scalar } from './node.ts';
import { syntaxFix } from './syntax-fix.ts';

/** Messages by the names of jsonc-parser's error codes. */
const EXPLAINED: Readonly<Record<string, string>> = {
  InvalidSymbol: 'this is not a JSON value',
  InvalidNumberFormat: 'this number is malformed',
  PropertyNameExpected: 'a key in double quotes is expected here',
  ValueExpected: 'a value is expected here',
  ColonExpected: 'a ":" is expected here',
  CommaExpected: 'a "," is missing before this',
  CloseBraceExpected: 'a "}" is missing',
  CloseBracketExpected: 'a "]" is missing',
  EndOfFileExpected: 'nothing may follow the end of the document',
  UnexpectedEndOfComment: 'this comment is never closed',
  UnexpectedEndOfString: 'this string is never closed',
  UnexpectedEndOfNumber: 'this number ends too early',
  InvalidUnicode: 'this \\u escape is malformed',
  InvalidEscapeCharacter: 'this escape is not one of JSON',
  InvalidCharacter: 'a control character must be escaped in a string',
};

/** Values of jsonc-parser's SyntaxKind, a const enum that cannot be imported here. */
const OPENS: ReadonlySet<number> = new Set([1, 3]);
const CLOSES: ReadonlySet<number> = new Set([2, 4]);
const END = 17;

/** Parses JSON with comments and trailing commas, as VS Code, Cursor and Zed write it. */
export function parseJson(source: Source, problems: Problems): Node | null {
  if (exceedsBounds(source, problems)) return null;
  const errors: ParseError[] = [];
  const tree = parseTree(source.text, errors, { allowTrailingComma: true, disallowComments: false });
  // The document has comments only.
  if (tree === undefined && errors.length === 1 && printParseErrorCode(errors[0]!.error) === 'ValueExpected')
    return null;
  for (const { error, offset, length } of primaryErrors(errors, source)) {
    const span = { start: offset, end: offset + length };
    const words = EXPLAINED[printParseErrorCode(error)] ?? 'this is not well-formed JSON';
    problems.error('TL1101', source, span, words, syntaxFix(source, span, words));
  }
  return errors.length > 0 || tree === undefined ? null : convert(tree, source, problems);
}

/** The parser recovers from errors: those after an unknown word, or in the same line, mostly follow from the first one. */
function primaryErrors(errors: readonly ParseError[], source: Source): readonly ParseError[] {
  const lineOf = ({ offset }: ParseError): number => source.position(offset).line;
  const unknown = errors.findIndex(({ error }) => printParseErrorCode(error) === 'InvalidSymbol');
  const relevant = unknown < 0 ? errors : errors.slice(0, unknown + 1);
  return relevant.filter((error, index) => index === 0 || lineOf(relevant[index - 1]!) !== lineOf(error)).slice(0, 3);
}

/** The parser recurses, so the depth is checked first. Ignores brackets in strings and comments. */
function exceedsBounds(source: Source, problems: Problems): boolean {
  const scanner = createScanner(source.text, true);
  let depth = 0;
  let parts = 0;
  for (let token: number = scanner.scan(); token !== END; token = scanner.scan()) {
    if (OPENS.has(token)) depth++;
    else if (CLOSES.has(token)) depth--;
    if (depth <= MAX_DEPTH && ++parts <= MAX_PARTS * 5) continue;
    const start = scanner.getTokenOffset();
    const span = { start, end: start + scanner.getTokenLength() };
    const why = depth > MAX_DEPTH ? `more than ${MAX_DEPTH} levels` : 'too many values';
    problems.error('TL1102', source, span, `${why} in one document`);
    return true;
  }
  return false;
}

function convert(node: JsonNode, source: Source, problems: Problems): Node {
  const span = spanOf(node);
  if (node.type === 'array') {
    return { kind: 'array', span, items: (node.children ?? []).map((item) => convert(item, source, problems)) };
  }
  if (node.type === 'object') {
    const members = new Map<string, Member>();
    for (const property of node.children ?? []) {
      const [name, value] = property.children ?? [];
      if (name === undefined || value === undefined) continue;
      const key = name.value as string;
      const keySpan = spanOf(name);
      const first = members.get(key);
      if (first === undefined) members.set(key, { key, keySpan, value: convert(value, source, problems) });
      else reportDuplicate(key, keySpan, first.keySpan, source, problems);
    }
    return { kind: 'object', span, members: [...members.values()] };
  }
  return scalar(node.value, span, source.text.slice(span.start, span.end));
}

function spanOf(node: JsonNode): TextSpan {
  return { start: node.offset, end: node.offset + node.length };
}

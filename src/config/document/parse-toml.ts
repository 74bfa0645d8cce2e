import { parse, TomlError } from 'smol-toml';
import type { Problems, Source, TextSpan } from '../problem/problem.ts';
import { MAX_DEPTH, MAX_PARTS, type Member, type Node } from './node.ts';
import { pathId, TomlPlaces } from './toml-places.ts';

/** Lines, commas and dots: fewer than of other syntaxes, because values and places are kept apart until the end. */
const MAX_TOML_PARTS = MAX_PARTS / 4;

/** Longest dotted key: smol-toml's time grows with its square. */
const LONG_KEY = new RegExp(`(?:[\\w"' -]+\\.){${MAX_DEPTH}}`);

/** TOML 1.0, as Codex writes it. smol-toml reads the values, `TomlPlaces` finds where they stand. */
export function parseToml(source: Source, problems: Problems): Node | null {
  const tooMuch = exceedsBounds(source.text);
  if (tooMuch !== null) {
    const span = { start: tooMuch, end: tooMuch + 1 };
    problems.error('TL1102', source, span, 'too deep or too many values in one document');
    return null;
  }
  let value: Record<string, unknown>;
  try {
    value = parse(source.text, { maxDepth: MAX_DEPTH, integersAsBigInt: false });
  } catch (error) {
    report(error, source, problems);
    return null;
  }
  const { places } = new TomlPlaces(source.text);
  const whole = { start: 0, end: Math.min(1, source.text.length) };
  return build(value, [], whole, source, places);
}

/** Offset of the first thing that is too much, or null. */
function exceedsBounds(text: string): number | null {
  let parts = 0;
  let lineStart = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 10) {
      const keyEnd = Math.min(at, lineStart + 4096);
      if (LONG_KEY.test(text.slice(lineStart, keyEnd).split('=', 1)[0]!)) return lineStart;
      lineStart = at + 1;
    }
    if (code !== 10 && code !== 44 && code !== 46) continue;
    if (++parts > MAX_TOML_PARTS) return at;
  }
  return LONG_KEY.test(text.slice(lineStart, lineStart + 4096).split('=', 1)[0]!) ? lineStart : null;
}

function report(error: unknown, source: Source, problems: Problems): void {
  if (!(error instanceof TomlError)) throw error;
  const start = source.offsetOf(error.line, error.column);
  const length = /^[\w."'-]*/.exec(source.text.slice(start, start + 200))![0].length;
  const span = { start, end: start + Math.max(length, 1) };
  const message = (error.message.split('\n', 1)[0] ?? '').replace(/^Invalid TOML document: /, '');
  if (message.includes('nested'))
    problems.error('TL1102', source, span, `more than ${MAX_DEPTH} levels in one document`);
  else if (message.includes('redefine')) problems.error('TL1103', source, span, 'this table or key is defined again');
  else problems.error('TL1101', source, span, message);
}

function build(
  value: unknown,
  path: readonly (string | number)[],
  around: TextSpan,
  source: Source,
  places: TomlPlaces['places'],
): Node {
  const span = places.get(pathId(path))?.value ?? around;
  if (Array.isArray(value)) {
    return { kind: 'array', span, items: value.map((item, i) => build(item, [...path, i], span, source, places)) };
  }
  if (typeof value === 'object' && value !== null && !(value instanceof Date)) {
    const members: Member[] = Object.entries(value).map(([key, item]) => {
      const at = [...path, key];
      return { key, keySpan: places.get(pathId(at))?.key ?? span, value: build(item, at, span, source, places) };
    });
    return { kind: 'object', span, members };
  }
  if (typeof value === 'string') return { kind: 'string', span, value, text: value };
  const written = source.text.slice(span.start, span.end);
  if (typeof value === 'number') return { kind: 'number', span, value, text: written };
  if (typeof value === 'bigint') return { kind: 'number', span, value: Number(value), text: written };
  if (typeof value === 'boolean') return { kind: 'boolean', span, value, text: written };
  return { kind: 'string', span, value: written, text: written };
}

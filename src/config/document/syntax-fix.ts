import { extname } from 'node:path';
import type { Source, TextSpan } from '../problem/problem.ts';

/**
 * The fix for a syntax error: for the whole text if that has another syntax, else for the marked place. Undefined if no fix is
 * known. Contains nothing of the text.
 */
export function syntaxFix(source: Source, span: TextSpan, complaint: string): string | undefined {
  const { text, file } = source;
  const whole = ofWhole(text, extname(file).toLowerCase());
  if (whole !== undefined) return whole;
  const there = text.slice(span.start, span.start + 200);
  return (PLACES.find(([said, found]) => said.test(complaint) && found.test(there)) ?? [])[2];
}

const MERGE = 'a merge has left its marks: keep one side, and remove the lines <<<<<<<, ======= and >>>>>>>';

function ofWhole(text: string, extension: string): string | undefined {
  const begin = text.trimStart().slice(0, 400);
  if (/^(?:<{7} |={7}$|>{7} )/m.test(text)) return MERGE;
  if (begin.startsWith('```')) return 'remove the lines with ```, which belong to the page that it was copied from';
  if (/^<(?:!doctype|html|\?xml)/i.test(begin)) return 'this is a web page: save the file itself, as by its "raw" link';
  const json = /^\.json[c5]?$/.test(extension);
  if (json && /^(?:#.*\n|---\n|\s)*[A-Za-z_]\w*:(?:\s|$)/.test(begin))
    return 'this looks like YAML: rename the file to .yaml';
  if (json && /^(?:#.*\n|\s)*\[[\w.-]+\]\s*\n/.test(begin)) return 'this looks like TOML: rename the file to .toml';
  if (extension === '.toml' && begin.startsWith('{')) return 'this looks like JSON: rename the file to .json';
  if (json && /^"[^"]*"\s*:/.test(begin)) return 'put { before all of it, and } behind it';
  return undefined;
}

const JSON_VALUE = /JSON value|value is expected|key in double quotes/;
const ANY = /(?:)/;

/** Fixes by the parser's complaint and the text at the marked place. */
const PLACES: readonly (readonly [RegExp, RegExp, string])[] = [
  [ANY, /^[“”„‘’]/, 'write straight quotes (") in place of typographic ones'],
  [JSON_VALUE, /^'/, 'write double quotes (") in place of single ones'],
  [JSON_VALUE, /^(?:True|False)\b/, 'write true or false, in small letters'],
  [JSON_VALUE, /^(?:None|nil|undefined|NULL)\b/, 'write null, or leave the key out'],
  [JSON_VALUE, /^#/, 'a comment begins with //'],
  [JSON_VALUE, /^[A-Za-z_$][\w$-]*\s*:/, 'put the key in double quotes'],
  [JSON_VALUE, /^[A-Za-z_@./~\\$-]/, 'put the text in double quotes'],
  [JSON_VALUE, ANY, 'add what is missing here, or remove what is too much'],
  [/escape is not one/, ANY, 'write each backslash twice, as in C:\\\\Users, or write /'],
  [/never closed/, ANY, 'close it in the same line; a line break within a text is \\n'],
  [/"," is missing/, ANY, 'add a comma behind the value before this one'],
  [/a ":" is expected/, ANY, 'add : between the key and its value'],
  [/a "[}\]]" is missing/, ANY, 'add one for each { or [ that is open'],
  [/may follow the end/, ANY, 'remove what follows, or a bracket too many before it'],
  [/[Tt]abs/, ANY, 'indent with blanks, two for each level'],
  [/reserved character|Nested mappings/, ANY, 'put the whole value in quotes'],
  [/same column|indent/, ANY, 'begin it in the same column as the keys beside it'],
  [/closing ["']/, ANY, 'close the quotes'],
  [/invalid value/, /^[A-Za-z_@./~-]/, 'put the text in double quotes'],
  [/illegal character in key/, /^:/, 'write = between a key and its value'],
  [/illegal character in key/, /^\s*\n/, 'close the name of the table with ]'],
];

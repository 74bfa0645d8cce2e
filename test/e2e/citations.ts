import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
/** Titles of tests and suites: the first argument of test(), it(), describe() and suite(), in any quotes. */
const TITLE = /\b(?:test|it|describe|suite)\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1/g;
const ID = /\b(?:S[0-4]\.\d+|(?:check|fault|goal|proto):[A-Z]\d+)\b/g;

/** Requirement ids in the titles of all tests, each with the files that cite it. `S2.1–S2.4` must be written out. */
export function citations(): Map<string, string[]> {
  const cited = new Map<string, string[]>();
  const patterns = [
    'src/**/*.{test,contract}.ts',
    'test/**/*.{test,contract}.ts',
    'examples/**/*.test.ts',
    'bench/**/*.test.ts',
  ];
  for (const file of patterns.flatMap((pattern) => globSync(pattern, { cwd: ROOT })).sort()) {
    for (const [, , title] of readFileSync(join(ROOT, file), 'utf8').matchAll(TITLE)) {
      for (const id of idsIn(title!)) cited.set(id, [...new Set([...(cited.get(id) ?? []), file])]);
    }
  }
  return cited;
}

/** The requirement ids in a title. */
export function idsIn(title: string): string[] {
  return [...title.matchAll(ID)].map(([id]) => id);
}

import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Pages whose tables do not count: users look them up and do not read them. */
const REFERENCE = ['docs/config.md', 'docs/config-errors.md', 'docs/errors.md'];

/** Words of each guide for users: README and `docs/*.md`, without code blocks, comments and targets of links. */
export function userWords(root: string): ReadonlyMap<string, number> {
  const pages = ['README.md', ...globSync('docs/*.md', { cwd: root }).sort()];
  return new Map(
    pages.map((page) => [page, wordsOf(readFileSync(join(root, page), 'utf8'), REFERENCE.includes(page))]),
  );
}

function wordsOf(markdown: string, isReference: boolean): number {
  const prose = (isReference ? markdown.replace(/^\|.*$/gm, '') : markdown)
    .replace(/^ *```[\s\S]*?^ *```/gm, '')
    .replace(/<!--[\s\S]*?-->/g, '')
    .replace(/\]\([^)]*\)/g, ']');
  return prose.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

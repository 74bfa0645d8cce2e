import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');

export interface CodeBlock {
  readonly page: string;
  readonly line: number;
  /** The first word behind the fence, and the rest. */
  readonly language: string;
  readonly mark: string;
  readonly text: string;
}

/** The code blocks of the pages for users: README, the guides, the reference and the page on deployment. */
export function codeBlocks(): readonly CodeBlock[] {
  return userPages().flatMap((page) => blocksOf(page, readFileSync(join(ROOT, page), 'utf8')));
}

export function userPages(): readonly string[] {
  return ['README.md', 'deploy/README.md', ...globSync(['docs/*.md', 'docs/reference/*.md'], { cwd: ROOT }).sort()];
}

function blocksOf(page: string, markdown: string): CodeBlock[] {
  return [...markdown.matchAll(/^```(\S*) ?(.*)\n([\s\S]*?)^```$/gm)].map((found) => ({
    page,
    line: markdown.slice(0, found.index).split('\n').length,
    language: found[1]!,
    mark: found[2]!,
    text: found[3]!,
  }));
}

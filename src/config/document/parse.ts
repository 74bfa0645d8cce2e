import { extname } from 'node:path';
import type { Problems, Source } from '../problem/problem.ts';
import { maskSecrets, maskText } from './mask-secrets.ts';
import type { ObjectNode } from './node.ts';

type Format = 'json' | 'yaml' | 'toml';

const BY_EXTENSION: Readonly<Record<string, Format>> = {
  '.json': 'json',
  '.jsonc': 'json',
  '.json5': 'json',
  '.yaml': 'yaml',
  '.yml': 'yaml',
  '.toml': 'toml',
};

/** The syntax, from the extension of the file or, if that is unknown, from its first characters. */
function formatOf(file: string, text: string): Format {
  const known = BY_EXTENSION[extname(file).toLowerCase()];
  if (known !== undefined) return known;
  if (/^\s*(?:\{|\/\/|\/\*)/.test(text)) return 'json';
  const line = /^[ \t]*(?![#\s]).+$/m.exec(text)?.[0] ?? '';
  return /^\s*(?:\[[^\]]*\]\s*(?:#.*)?$|[\w."'-]+\s*=)/.test(line) ? 'toml' : 'yaml';
}

/**
 * Parses a source of any syntax into nodes, and masks its secrets. JSON may have comments and trailing commas. Returns null for a
 * source that is no map of keys, and reports why to `problems`. Loads a parser on first use: that of YAML takes 25 ms. Executes
 * nothing that a document names, and takes bounded time on any document.
 */
export async function parseSource(source: Source, problems: Problems): Promise<ObjectNode | null> {
  maskText(source);
  if (source.text.trim() === '') {
    problems.error('TL1005', source, null, 'the file is empty');
    return null;
  }
  const before = problems.errors.length;
  const format = formatOf(source.file, source.text);
  const root = await parseAs(format, source, problems);
  if (root?.kind === 'object') {
    maskSecrets(source, root);
    return root;
  }
  if (problems.errors.length === before) {
    const what = root === null ? 'the file is empty' : 'the document is not a map of keys';
    problems.error('TL1005', source, root?.span ?? null, what);
  }
  return null;
}

async function parseAs(format: Format, source: Source, problems: Problems) {
  if (format === 'json') return (await import('./parse-json.ts')).parseJson(source, problems);
  if (format === 'yaml') return (await import('./parse-yaml.ts')).parseYaml(source, problems);
  return (await import('./parse-toml.ts')).parseToml(source, problems);
}

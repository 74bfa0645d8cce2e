import { dirname, resolve } from 'node:path';
import { folderOf } from '../client.ts';
import { Expander } from '../document/expand.ts';
import { child, isString, type Node } from '../document/node.ts';
import { parseSource } from '../document/parse.ts';
import { NamedFiles, readSource } from '../document/read-source.ts';
import { Problems, Source } from '../problem/problem.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** The data folder that a configuration file names; null if it names none or cannot be read. */
export function dataDirOf(file: string, env: Environment): Promise<string | null> {
  return readKey(file, env, 'data.dir');
}

/** The registry that a configuration file names; null if it names none or cannot be read. */
export function registryOf(file: string, env: Environment): Promise<string | null> {
  return readKey(file, env, 'registry');
}

/**
 * Reads a single key and checks nothing else, so that commands find a running gateway even if its file has become invalid.
 * Asks no questions. Resolves a value that is no URL as a path, from the folder that the file belongs to.
 */
async function readKey(file: string, env: Environment, key: string): Promise<string | null> {
  const source = readSource(file);
  if (!(source instanceof Source)) return null;
  const problems = new Problems();
  const root = await parseSource(source, problems);
  const node = key
    .split('.')
    .reduce<Node | undefined>(
      (within, member) => (within?.kind === 'object' ? child(within, member) : undefined),
      root ?? undefined,
    );
  if (!isString(node)) return null;
  const folder = folderOf(file);
  const places = { fileFolder: dirname(file), workspaceFolder: folder };
  const unused = { inputs: new Map(), secrets: new Set<string>(), files: new NamedFiles() };
  const expander = new Expander({ source, problems, client: 'unknown', ...places, env, ...unused });
  const text = expander.expand(node, key);
  return text === null || /^https?:\/\//.test(text) ? text : resolve(folder, expander.fromHome(text));
}

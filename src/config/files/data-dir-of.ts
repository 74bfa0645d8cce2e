import { dirname, resolve } from 'node:path';
import { folderOf } from '../client.ts';
import { Expander } from '../document/expand.ts';
import { child, isString, objectAt } from '../document/node.ts';
import { parseSource } from '../document/parse.ts';
import { readSource } from '../document/read-source.ts';
import { Problems, Source } from '../problem/problem.ts';

/**
 * The data folder that a configuration file names; null where it names none, or cannot be read. Asks nobody anything and
 * checks nothing else: it is for finding a gateway that runs, whatever has become of its file since.
 */
export async function dataDirOf(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string | null> {
  const source = readSource(file);
  if (!(source instanceof Source)) return null;
  const problems = new Problems();
  const root = await parseSource(source, problems);
  const data = root === null ? undefined : objectAt(root, 'data');
  const node = data === undefined ? undefined : child(data, 'dir');
  if (!isString(node)) return null;
  const folder = folderOf(file);
  const places = { fileFolder: dirname(file), workspaceFolder: folder };
  const unused = { inputs: new Map(), secrets: new Set<string>(), files: new Set<string>() };
  const expander = new Expander({ source, problems, client: 'unknown', ...places, env, ...unused });
  const path = expander.expand(node, 'data.dir');
  return path === null ? null : resolve(folder, path);
}

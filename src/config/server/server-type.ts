import { type HttpSpec, URL_KINDS } from '../../model/server.ts';
import { isString } from '../document/node.ts';
import { suggest } from '../problem/problem.ts';
import type { FieldReader } from './field-reader.ts';
import { URL_KEYS } from './read-http.ts';

type ServerType =
  | { readonly type: 'stdio' }
  | { readonly type: 'docker' }
  | { readonly type: HttpSpec['type']; readonly sseFallback: boolean }
  /** Cannot be started here: a built-in of its client, or of a type that only its client knows. */
  | { readonly type: 'none'; readonly why: string };

const TYPES: Readonly<Record<string, 'stdio' | 'docker' | HttpSpec['type'] | 'remote'>> = {
  stdio: 'stdio',
  local: 'stdio',
  docker: 'docker',
  container: 'docker',
  https: 'http',
  streamablehttp: 'http',
  streamable: 'http',
  ...Object.fromEntries(URL_KINDS.map((kind) => [kind, kind])),
  remote: 'remote',
};
/** Keys by problem: at least one of them is required. */
const WANTED = {
  TL1406: ['command', 'cmd'],
  TL1407: URL_KEYS,
  TL1409: ['command', 'cmd', ...URL_KEYS],
  TL1413: ['docker'],
} as const satisfies Readonly<Record<string, readonly string[]>>;
const BUILTIN = new Set(['builtin', 'platform', 'frontend', 'inlinepython']);

/** The type, which may be written in several spellings, or the one that the other keys imply; null after a problem. */
export function serverType(fields: FieldReader, quiet: boolean): ServerType | null {
  const {
    path,
    context: { client },
  } = fields;
  const command = fields.first('command', 'cmd');
  const urls = URL_KEYS.flatMap((key) => fields.first(key) ?? []);
  const [url, second] = urls;
  if (second !== undefined) {
    fields.error('TL1306', second.node, `${path} has both ${url!.key} and ${second.key}`);
    return null;
  }
  const written = fields.first('type', 'transport');
  const wanted = isString(written?.node) ? written.node.text : null;
  const plain = wanted?.toLowerCase().replaceAll(/[-_\s]/g, '') ?? null;
  const type = plain === null ? null : Object.hasOwn(TYPES, plain) ? TYPES[plain] : undefined;
  if (type === undefined) {
    if (BUILTIN.has(wanted!.toLowerCase().replaceAll(/[-_]/g, '')) && client.isSettings) {
      return { type: 'none', why: 'is built into its client' };
    }
    if (client.isSettings) return { type: 'none', why: `has a type that is unknown here, ${JSON.stringify(wanted)}` };
    fields.error('TL1405', written!.node, `${path}: unsupported MCP server type ${JSON.stringify(wanted)}`);
    return null;
  }
  if (command !== null && url !== undefined) {
    const message = `${path} has both ${command.key} and ${url.key}: is it a local program or a remote server?`;
    fields.error('TL1306', url.node, message);
    return null;
  }
  if (command === null && url === undefined && client.id === 'zed') {
    return { type: 'none', why: 'is an extension of Zed, which knows its command' };
  }
  const docker = fields.first('docker');
  if (docker !== null || type === 'docker') {
    if (docker === null) return complain(fields, quiet, 'TL1413', 'a server in a container needs "docker"');
    const otherType =
      type === null || type === 'docker' || type === 'stdio' ? null : `the type ${JSON.stringify(type)}`;
    const other = url !== undefined ? 'a url' : fields.has('ssh') ? 'ssh' : otherType;
    if (other === null) return { type: 'docker' };
    fields.error('TL1306', null, `${path} has docker and ${other} both`);
    return null;
  }
  if (type === 'stdio' && command === null) return complain(fields, quiet, 'TL1406', 'a stdio server needs a command');
  if (type !== null && type !== 'stdio' && url === undefined) {
    return complain(fields, quiet, 'TL1407', `a server of type ${JSON.stringify(wanted)} needs a url`);
  }
  if (type === 'stdio' || command !== null) return { type: 'stdio' };
  if (url === undefined) return complain(fields, quiet, 'TL1409', 'neither a command nor a url');
  if (type !== null && type !== 'remote') return { type, sseFallback: false };
  if (url.key === 'httpUrl') return { type: 'http', sseFallback: false };
  if (type === null && url.key === 'url' && client.urlType !== null)
    return { type: client.urlType, sseFallback: false };
  return { type: 'http', sseFallback: true };
}

/** With `quiet` reports nothing: an error that `checkShape` reported, such as a misspelt key, is the likely cause. */
function complain(fields: FieldReader, quiet: boolean, code: keyof typeof WANTED, what: string): null {
  if (!quiet) fields.error(code, null, `${fields.path}: ${what}`, misspelt(fields, WANTED[code]));
  return null;
}

/** Unknown keys may belong to a client, so one counts as misspelt only if it resembles a key that is missing. */
function misspelt(fields: FieldReader, wanted: readonly string[]): string | undefined {
  for (const { key } of fields.node.members) {
    const near = wanted.includes(key) ? null : suggest(key, wanted);
    if (near !== null) return `there is ${JSON.stringify(key)}; did you mean ${JSON.stringify(near)}?`;
  }
  return undefined;
}

import { basename } from 'node:path';
import { CLIENT_KEYS, type ClientFormat, clientOf } from '../client.ts';
import { child, isString, type Node, type ObjectNode, objectAt, withoutNulls } from '../document/node.ts';
import { RESERVED_KEYS } from '../document/shape.ts';
import type { Problems, Source, TextSpan } from '../problem/problem.ts';
import { configJsonSchema } from '../schema-json.ts';
import { nearestProject } from './find-config.ts';

/** One server of a file, before reading. */
export interface RawDefinition {
  readonly name: string;
  readonly nameSpan: TextSpan;
  readonly node: Node;
  /** `mcpServers.git`, for messages. */
  readonly path: string;
  /** Working folder, if it is not the folder of the file. */
  readonly folder?: string;
}

export interface Layout {
  readonly client: ClientFormat;
  /** The file is written for Trunkline: unknown keys are errors. */
  readonly ours: boolean;
  /** Names of the containers found, such as `mcpServers`; empty for a root map and for a file of settings only. */
  readonly containers: readonly string[];
  readonly definitions: readonly RawDefinition[];
  /** Every top-level key is a server. */
  readonly isRootMap: boolean;
  /** The object that contains `inputs`. */
  readonly inputsOf: ObjectNode;
}

const CONTAINERS = ['mcpServers', 'amp.mcpServers', 'servers', 'mcp_servers', 'context_servers', 'mcp', 'extensions'];
const OUR_SERVER_KEYS = [
  'docker',
  'ssh',
  'isolation',
  'replicas',
  'singleton',
  'isolationHeader',
  'forwardHeaders',
  'timeoutMs',
  'retry',
  'trusted',
  'start',
  'inheritEnv',
  'limits',
];

/** Finds the servers in a file of any known layout, and identifies the client of the layout. */
export function findDefinitions(root: ObjectNode, source: Source, problems: Problems, cwd: string): Layout {
  let inputsOf = root;
  const containers: string[] = [];
  const definitions: RawDefinition[] = [];
  for (const container of CONTAINERS) {
    let node = child(root, container);
    let path = container;
    const nested = container === 'mcp' && node?.kind === 'object' ? objectAt(node, 'servers') : undefined;
    if (nested !== undefined && node?.kind === 'object' && !looksLikeServer(nested)) {
      inputsOf = node;
      node = nested;
      path = 'mcp.servers';
    }
    if (node === undefined) continue;
    const values = node.kind === 'object' ? node.members.map(({ value }) => value) : [];
    if (container === 'extensions' && !values.some(looksLikeServer)) continue;
    // Gemini has settings under this name.
    if (container === 'mcp' && values.length > 0 && values.every(({ kind }) => kind !== 'object')) continue;
    containers.push(path);
    definitions.push(...entries(node, path, source, problems));
  }
  const local = projectServers(root, cwd);
  const shadowed = new Set(local.map(({ name }) => name));
  const shown = definitions.filter((one) => !shadowed.has(one.name) && !isExcluded(one, root, source, problems));
  const all = [...shown, ...local];
  const client = clientOf(source.file, containers, clientFromContent(root));
  const isRootMap = containers.length === 0 && local.length === 0 && looksLikeRootMap(root);
  if (isRootMap) all.push(...entries(root, '', source, problems));
  const ours = isOurs(root, source, client, all);
  // Clients write null for a value that is not set.
  const read = ours ? all : all.map((one) => ({ ...one, node: withoutNulls(one.node) }));
  return { client, ours, containers, definitions: read, isRootMap, inputsOf };
}

function entries(node: Node, path: string, source: Source, problems: Problems): RawDefinition[] {
  if (node.kind === 'object') {
    return node.members
      .filter(({ key }) => key !== '$schema')
      .map(({ key, keySpan, value }) => ({
        name: key,
        nameSpan: keySpan,
        node: value,
        path: path === '' ? key : `${path}.${key}`,
      }));
  }
  if (node.kind === 'array') {
    return node.items.flatMap((item, index) => {
      const name = item.kind === 'object' ? child(item, 'name') : undefined;
      const at = `${path}[${index}]`;
      if (item.kind === 'object' && isString(child(item, 'uses'))) {
        problems.warn('TL1414', source, item.span, `${at} refers to Continue's hub; it is left out`);
        return [];
      }
      if (isString(name)) return [{ name: name.text, nameSpan: name.span, node: item, path: `${path}.${name.text}` }];
      problems.error('TL1304', source, item.span, `${at} needs a "name"`);
      return [];
    });
  }
  if (node.kind === 'null') return [];
  const fix = 'write { "name": { "command": "…", "args": [] } }';
  problems.error('TL1302', source, node.span, `${path} must be a map of servers by name`, fix);
  return [];
}

/** Claude Code's local scope: `projects.<folder>.mcpServers` of the nearest folder. */
function projectServers(root: ObjectNode, cwd: string): RawDefinition[] {
  const projects = objectAt(root, 'projects');
  if (projects === undefined) return [];
  const keys = projects.members.map(({ key }) => key);
  const folder = nearestProject(keys, cwd);
  const project = folder === null ? undefined : objectAt(projects, folder);
  const servers = project === undefined ? undefined : objectAt(project, 'mcpServers');
  return (servers?.members ?? []).map(({ key, keySpan, value }) => ({
    name: key,
    nameSpan: keySpan,
    node: value,
    path: `projects.${folder}.mcpServers.${key}`,
    folder: folder!,
  }));
}

/** The folders for which Claude Code has servers. */
export function foldersWithServers(root: ObjectNode): readonly string[] {
  return (objectAt(root, 'projects')?.members ?? [])
    .filter(({ value }) => value.kind === 'object' && (objectAt(value, 'mcpServers')?.members ?? []).length > 0)
    .map(({ key }) => key);
}

/** Gemini's `mcp.allowed` and `mcp.excluded` select its servers. */
function isExcluded(
  { name, nameSpan, path }: RawDefinition,
  root: ObjectNode,
  source: Source,
  problems: Problems,
): boolean {
  const settings = objectAt(root, 'mcp');
  const names = (key: string): readonly string[] | null => {
    const list = settings === undefined ? undefined : child(settings, key);
    return list?.kind === 'array' ? list.items.filter(isString).map(({ text }) => text) : null;
  };
  const allowed = names('allowed');
  const by = names('excluded')?.includes(name) === true ? 'excluded' : 'allowed';
  if (by === 'allowed' && (allowed === null || allowed.includes(name))) return false;
  problems.warn('TL1414', source, nameSpan, `${path} is left out, as its client does by mcp.${by}`);
  return true;
}

export function looksLikeServer(node: Node): boolean {
  const keys = ['command', 'cmd', 'url', 'httpUrl', 'serverUrl', 'uri', 'transport'];
  return node.kind === 'object' && node.members.some(({ key, value }) => keys.includes(key) && value.kind !== 'null');
}

function looksLikeRootMap(root: ObjectNode): boolean {
  const servers = root.members.filter(({ key }) => key !== '$schema');
  return servers.length > 0 && servers.every(({ value }) => looksLikeServer(value));
}

function isOurs(
  root: ObjectNode,
  source: Source,
  client: ClientFormat,
  definitions: readonly RawDefinition[],
): boolean {
  if (/^trunkline\.\w+$/.test(basename(source.file))) return true;
  const schema = child(root, '$schema');
  if (isString(schema) && /trunkline|(?:^|\/)schema\/config\.schema\.json$/.test(schema.text)) return true;
  if (client.isSettings) return false;
  if (root.members.some(({ key }) => isSetting(key))) return true;
  return definitions.some(
    ({ node }) => node.kind === 'object' && node.members.some(({ key }) => OUR_SERVER_KEYS.includes(key)),
  );
}

/** Settings of Gemini CLI, which no client but Claude Code has beside `mcpServers`; that one has `projects` too. */
const GEMINI_SETTINGS = ['security', 'general', 'ui', 'tools', 'context', 'theme', 'selectedAuthType'];

/** The client of a file at any path, if the file has content that only this client writes. */
function clientFromContent(root: ObjectNode): 'continue' | 'gemini' | 'librechat' | 'opencode' | null {
  const has = (key: string): boolean => child(root, key) !== undefined;
  if (has('mcpServers') && has('endpoints')) return 'librechat';
  if (has('mcpServers') && !has('projects') && GEMINI_SETTINGS.some(has)) return 'gemini';
  const schema = child(root, 'schema');
  // A block has a schema version and a list of servers.
  if (isString(schema) && /^v\d+$/.test(schema.text) && child(root, 'mcpServers')?.kind === 'array') return 'continue';
  const servers = objectAt(root, 'mcp')?.members ?? [];
  const types = servers.map(({ value }) => (value.kind === 'object' ? child(value, 'type') : undefined));
  const isOpencode = types.length > 0 && types.every((type) => isString(type) && /^(?:local|remote)$/.test(type.text));
  return isOpencode ? 'opencode' : null;
}

/** Whether this is a top-level setting of Trunkline. */
export function isSetting(key: string): boolean {
  if (key === '$schema' || key === 'inputs' || CONTAINERS.includes(key)) return false;
  return Object.hasOwn(configJsonSchema().properties ?? {}, key) || Object.hasOwn(RESERVED_KEYS, key);
}

/** Whether a top-level key is not checked as a setting: a container, `$schema`, `inputs`, `projects`, or a client's own key. */
export function isContainerKey(key: string): boolean {
  return (
    CONTAINERS.includes(key) || key === '$schema' || key === 'inputs' || key === 'projects' || CLIENT_KEYS.has(key)
  );
}

import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../../model/json-object.ts';

/** The gateway as an entry of a client's file. */
export interface LinkTarget {
  /** The name of the entry. */
  readonly name: string;
  readonly url: string;
  /** Key of an agent; null if the gateway needs none. */
  readonly key: string | null;
  /** The command line of `trunkline stdio`, for clients whose files take local servers only. */
  readonly bridge: readonly string[];
}

/** An MCP client on this machine, and the file with its servers. */
export interface ClientApp {
  readonly id: string;
  readonly title: string;
  /** Absolute paths. The first that exists counts; if none does, the first is created. */
  readonly files: readonly string[];
  /** A folder or file that exists if the client is installed. */
  readonly trace: string;
  readonly syntax: 'json' | 'toml' | 'yaml';
  /** Path of keys to the servers in the file. */
  readonly container: readonly string[];
  /** The servers are a list of objects with a `name`. */
  readonly isList?: true;
  /** It starts local servers only, so its entry runs `trunkline stdio`. */
  readonly localOnly?: true;
  readonly entry: (endpoint: LinkTarget) => object;
  /** Settings of a new entry, which the user may change in the client. */
  readonly defaults?: object;
}

/** What determines the folders of programs. */
export interface Places {
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
}

function headersOf({ key }: LinkTarget): { headers?: { Authorization: string } } {
  return key === null ? {} : { headers: { Authorization: `Bearer ${key}` } };
}

/** Returns all known clients, with their paths on this machine. */
export function clientApps({ home, env, platform }: Places): readonly ClientApp[] {
  // An empty variable counts as unset (XDG Base Directory).
  const folder = (name: string, usual: string): string => env[name] || usual;
  const xdg = folder('XDG_CONFIG_HOME', join(home, '.config'));
  const config =
    platform === 'win32'
      ? folder('APPDATA', join(home, 'AppData', 'Roaming'))
      : platform === 'darwin'
        ? join(home, 'Library', 'Application Support')
        : xdg;
  const codex = folder('CODEX_HOME', join(home, '.codex'));
  const code = join(config, 'Code', 'User');
  const extension = (name: string, file: string) => join(code, 'globalStorage', name, 'settings', file);
  const client = (
    id: string,
    title: string,
    file: string,
    container: string,
    entry: ClientApp['entry'],
    more: Partial<ClientApp> = {},
  ): ClientApp => ({
    id,
    title,
    files: [file],
    trace: file,
    syntax: 'json',
    container: [container],
    entry,
    ...more,
  });
  return [
    client('claude-code', 'Claude Code', join(home, '.claude.json'), 'mcpServers', (to) => ({
      type: 'http',
      url: to.url,
      ...headersOf(to),
    })),
    client(
      'claude-desktop',
      'Claude Desktop',
      join(config, 'Claude', 'claude_desktop_config.json'),
      'mcpServers',
      ({ bridge: [command, ...args], key }) => ({
        command,
        args,
        ...(key === null ? {} : { env: { TRUNKLINE_KEY: key } }),
      }),
      { trace: join(config, 'Claude'), localOnly: true },
    ),
    client(
      'cursor',
      'Cursor',
      join(home, '.cursor', 'mcp.json'),
      'mcpServers',
      (to) => ({ url: to.url, ...headersOf(to) }),
      { trace: join(home, '.cursor') },
    ),
    client(
      'vscode',
      'VS Code',
      join(code, 'mcp.json'),
      'servers',
      (to) => ({ type: 'http', url: to.url, ...headersOf(to) }),
      { trace: code },
    ),
    client(
      'copilot',
      'Copilot CLI',
      join(home, '.copilot', 'mcp-config.json'),
      'mcpServers',
      (to) => ({ type: 'http', url: to.url, ...headersOf(to) }),
      { trace: join(home, '.copilot'), defaults: { tools: ['*'] } },
    ),
    client(
      'windsurf',
      'Windsurf',
      join(home, '.codeium', 'windsurf', 'mcp_config.json'),
      'mcpServers',
      (to) => ({ serverUrl: to.url, ...headersOf(to) }),
      { trace: join(home, '.codeium', 'windsurf') },
    ),
    client(
      'codex',
      'Codex',
      join(codex, 'config.toml'),
      'mcp_servers',
      ({ url, key }) => ({ url, ...(key === null ? {} : { http_headers: { Authorization: `Bearer ${key}` } }) }),
      { syntax: 'toml', trace: codex },
    ),
    client(
      'gemini',
      'Gemini CLI',
      join(home, '.gemini', 'settings.json'),
      'mcpServers',
      (to) => ({ httpUrl: to.url, ...headersOf(to) }),
      { trace: join(home, '.gemini') },
    ),
    client(
      'opencode',
      'opencode',
      join(xdg, 'opencode', 'opencode.json'),
      'mcp',
      (to) => ({ type: 'remote', url: to.url, ...headersOf(to) }),
      {
        defaults: { enabled: true },
        files: ['opencode.json', 'opencode.jsonc', 'config.json'].map((name) => join(xdg, 'opencode', name)),
        trace: join(xdg, 'opencode'),
      },
    ),
    client(
      'zed',
      'Zed',
      join(platform === 'win32' ? config : xdg, 'zed', 'settings.json'),
      'context_servers',
      (to) => ({ url: to.url, ...headersOf(to) }),
      { trace: join(platform === 'win32' ? config : xdg, 'zed') },
    ),
    client(
      'goose',
      'Goose',
      join(xdg, 'goose', 'config.yaml'),
      'extensions',
      (to) => ({ type: 'streamable_http', name: to.name, uri: to.url, ...headersOf(to) }),
      { syntax: 'yaml', trace: join(xdg, 'goose'), defaults: { enabled: true, timeout: 300 } },
    ),
    client(
      'cline',
      'Cline',
      extension('saoudrizwan.claude-dev', 'cline_mcp_settings.json'),
      'mcpServers',
      (to) => ({ type: 'streamableHttp', url: to.url, ...headersOf(to) }),
      { trace: join(code, 'globalStorage', 'saoudrizwan.claude-dev') },
    ),
    client(
      'roo',
      'Roo Code',
      extension('rooveterinaryinc.roo-cline', 'mcp_settings.json'),
      'mcpServers',
      (to) => ({ type: 'streamable-http', url: to.url, ...headersOf(to) }),
      { trace: join(code, 'globalStorage', 'rooveterinaryinc.roo-cline') },
    ),
    client(
      'continue',
      'Continue',
      join(home, '.continue', 'config.yaml'),
      'mcpServers',
      ({ url, key }) => ({
        type: 'streamable-http',
        url,
        ...(key === null ? {} : { requestOptions: { headers: { Authorization: `Bearer ${key}` } } }),
      }),
      { syntax: 'yaml', isList: true, trace: join(home, '.continue') },
    ),
  ];
}

export function clientsHere(env: NodeJS.ProcessEnv): readonly ClientApp[] {
  return clientApps({ home: env['HOME'] || homedir(), env, platform: process.platform });
}

type Entry = Readonly<Record<string, unknown>>;

/**
 * The entry of the gateway. `was`: the entry of that name now, and the address that `link` wrote; what the client or the user put
 * into it stays.
 */
export function entryFor(
  client: ClientApp,
  endpoint: LinkTarget,
  was: { readonly entry: unknown; readonly url: string | undefined } | null = null,
): object {
  const entry = client.entry(endpoint) as Entry;
  if (was === null || !isObject(was.entry) || !isOfLink(client, was.entry, was.url, endpoint.url))
    return { ...client.defaults, ...entry };
  // An earlier `link` may have written a key.
  return merged(was.entry, client.entry({ ...endpoint, key: '' }) as Entry, entry);
}

/** False for a server that the user put there instead, and for a gateway on another host: its headers are not for this one. */
function isOfLink({ localOnly }: ClientApp, entry: Entry, url = '', now: string): boolean {
  if (localOnly === true) return Array.isArray(entry['args']) && entry['args'].includes('stdio');
  return Object.values(entry).includes(url) && URL.parse(url)?.hostname === new URL(now).hostname;
}

/** `was` with the values of `now`; the other keys of `written` are removed, and all others stay. */
function merged(was: Entry, written: Entry, now: Entry): Entry {
  const result: Record<string, unknown> = { ...was };
  for (const [key, value] of Object.entries(written)) {
    const [before, after] = [was[key], now[key]];
    const kept = isObject(value) ? merged(isObject(before) ? before : {}, value, isObject(after) ? after : {}) : after;
    if (kept === undefined || (isObject(kept) && Object.keys(kept).length === 0)) delete result[key];
    else result[key] = kept;
  }
  return result;
}

/** Returns the client's file that exists, else the one to create. */
export function fileOf({ files }: ClientApp): string {
  return files.find((file) => existsSync(file)) ?? files[0]!;
}

/** Whether the client seems to be installed on this machine. */
export function isInstalled(client: ClientApp): boolean {
  return existsSync(client.trace) || client.files.some((file) => existsSync(file));
}

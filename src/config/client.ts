import { basename, dirname } from 'node:path';

/** A client whose file format differs from the common `mcpServers` in more than the name of the container. */
export type ClientId = keyof typeof FORMATS;

export interface ClientFormat {
  readonly id: ClientId;
  /** Milliseconds of one unit of `timeout`; null if the unit is unknown. */
  readonly timeoutUnitMs: number | null;
  /** The file also contains other settings of the client, which are ignored. */
  readonly isSettings: boolean;
  /** The type of a server with a `url` and without a type; null to try http and then sse. */
  readonly urlType: 'sse' | null;
}

/** Unit of `timeout` in milliseconds, whether the file contains other settings, and type of a server with a `url`. */
const FORMATS = {
  amp: [1, true, null],
  claude: [1, false, null],
  'claude-user': [1, true, null],
  cline: [1000, false, null],
  codex: [1000, true, null],
  continue: [1000, true, null],
  cursor: [1, false, null],
  gemini: [1, true, 'sse'],
  goose: [1000, true, null],
  librechat: [1, true, 'sse'],
  muster: [1000, false, null],
  opencode: [1, true, null],
  roo: [1000, false, null],
  vscode: [1, false, null],
  windsurf: [1, false, null],
  zed: [1, true, null],
  unknown: [null, false, null],
} as const;

function formatOf(id: ClientId): ClientFormat {
  const [timeoutUnitMs, isSettings, urlType] = FORMATS[id];
  return { id, timeoutUnitMs, isSettings, urlType };
}

/** Clients by `folder/file`, then by file alone, then by container. */
const BY_PATH: Readonly<Record<string, ClientId>> = {
  '.amp/settings.json': 'amp',
  'amp/settings.json': 'amp',
  '.vscode/mcp.json': 'vscode',
  '.cursor/mcp.json': 'cursor',
  '.roo/mcp.json': 'roo',
  '.gemini/settings.json': 'gemini',
  '.codex/config.toml': 'codex',
  '.copilot/mcp-config.json': 'claude',
  '.continue/config.yaml': 'continue',
  'goose/config.yaml': 'goose',
  'zed/settings.json': 'zed',
  '.zed/settings.json': 'zed',
};
const BY_NAME: Readonly<Record<string, ClientId>> = {
  '.mcp.json': 'claude',
  '.claude.json': 'claude-user',
  'claude_desktop_config.json': 'claude',
  'cline_mcp_settings.json': 'cline',
  'mcp_settings.json': 'roo',
  'mcp_config.json': 'windsurf',
  'librechat.yaml': 'librechat',
  'librechat.yml': 'librechat',
  'opencode.json': 'opencode',
  'opencode.jsonc': 'opencode',
};
const BY_CONTAINER: Readonly<Record<string, ClientId>> = {
  'amp.mcpServers': 'amp',
  servers: 'vscode',
  mcp_servers: 'codex',
  context_servers: 'zed',
  extensions: 'goose',
};

/** The client of a file, by its path, its content (`detected`), or its container. */
export function clientOf(file: string, containers: readonly string[], detected: ClientId | null = null): ClientFormat {
  const name = basename(file);
  const byPath = BY_PATH[`${basename(dirname(file))}/${name}`] ?? BY_NAME[name];
  if (byPath !== undefined) return formatOf(byPath);
  // Most blocks of Continue are in folders of their own.
  if (detected === 'continue' || /[/\\]\.continue[/\\]/.test(file)) return formatOf('continue');
  if (detected !== null) return formatOf(detected);
  for (const container of containers) {
    const id = BY_CONTAINER[container];
    if (id !== undefined) return formatOf(id);
  }
  return formatOf('unknown');
}

const IN_WORKSPACE = new Set([
  '.amp',
  '.vscode',
  '.cursor',
  '.roo',
  '.gemini',
  '.codex',
  '.zed',
  '.continue',
  '.claude',
]);

/** Base of relative paths and value of `${workspaceFolder}`: the file's folder, or the parent of `.vscode` and the like. */
export function folderOf(file: string): string {
  const folder = dirname(file);
  return IN_WORKSPACE.has(basename(folder)) ? dirname(folder) : folder;
}

/** Keys that have a meaning for clients alone; ignored without a warning. */
export const CLIENT_KEYS: ReadonlySet<string> = new Set([
  'alwaysAllow',
  'autoApprove',
  'trust',
  'name',
  'title',
  'icon',
  'gallery',
  'version',
  'dev',
  'required',
  'default_tools_approval_mode',
  'bundled',
  'display_name',
  'settings',
  'source',
  'chatMenu',
  'customUserVars',
  'faviconUrl',
  'iconPath',
  'schema',
  'serverInstructions',
  'startup',
  'stderr',
  'sampling',
  'sandboxEnabled',
  'sandbox',
]);

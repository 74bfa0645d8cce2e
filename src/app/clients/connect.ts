import type { Agent, DesiredState } from '../../model/desired-state.ts';

/** How a user passes the key of an agent to a client without showing it. */
export interface KeyReference {
  readonly agent: string;
  /** Shell expression for the key, such as `$WRITER_KEY`. */
  readonly shell: string;
  /** The environment variable that holds the key; null if none does. */
  readonly variable: string | null;
  /** Names of the other agents. */
  readonly others: readonly string[];
}

/** The commands that add a server to a client, by client. */
const COMMANDS: Readonly<Record<string, (url: string, key: KeyReference | null) => string>> = {
  'claude-code': (url, key) => `claude mcp add -t http tl ${url}${header('--header', key)}`,
  codex: (url, key) => {
    const variable = key === null ? '' : ` --bearer-token-env-var ${key.variable ?? 'TRUNKLINE_KEY'}`;
    const before = key === null || key.variable !== null ? '' : `export TRUNKLINE_KEY="${key.shell}"; `;
    return `${before}codex mcp add tl --url ${url}${variable}`;
  },
  gemini: (url, key) => `gemini mcp add -s user -t http tl ${url}${header('-H', key)}`,
};

function header(option: string, key: KeyReference | null): string {
  return key === null ? '' : ` ${option} "Authorization: Bearer ${key.shell}"`;
}

/** Returns the commands of those clients that have one; if none has, that of Claude Code. */
export function connectCommands(clients: readonly string[], url: string, key: KeyReference | null): readonly string[] {
  const known = clients.flatMap((id) => connectCommand(id, url, key) ?? []);
  return known.length === 0 ? [connectCommand('claude-code', url, key)!] : known;
}

/** Returns the command of one client; null if it has none. */
export function connectCommand(client: string, url: string, key: KeyReference | null): string | null {
  return COMMANDS[client]?.(url, key) ?? null;
}

/** Returns the command that runs this program again. */
export function programCommand(env: NodeJS.ProcessEnv): string {
  return env['npm_command'] === 'exec' ? 'npx trunkline' : 'trunkline';
}

/** Returns the key of the named agent, else of one that may use all servers, else of the first; null if no key is needed. */
export function keyReference(
  { agents, unknownCallers }: Pick<DesiredState, 'agents' | 'unknownCallers'>,
  env: NodeJS.ProcessEnv,
  wanted: string | null = null,
): KeyReference | null {
  const all: readonly Agent[] = [...agents.values()];
  const usual = all.find(({ servers }) => servers === null) ?? all[0];
  const agent = wanted === null ? usual : agents.get(wanted);
  if (agent === undefined || (wanted === null && unknownCallers !== 'refuse')) return null;
  const { name, variable } = agent;
  const others = all.map((one) => one.name).filter((other) => other !== name);
  if (variable !== undefined && env[variable]) return { agent: name, shell: `$${variable}`, variable, others };
  return { agent: name, shell: `$(${programCommand(env)} key ${name})`, variable: null, others };
}
